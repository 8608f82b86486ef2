"""How English messages refuse, limit, block and fail: the beginnings of their sentences, in lower case."""

from typing import Final

# What a refusal may name without saying anything: the request itself, never a topic.
_THIS: Final = (
    r"(?:(?:content|material|images?|text) (?:of (?:that|this|such a?) ?(?:nature|kind|type|sort)|like (?:that"
    r"|this))|th(?:at|is|is one|ese|ose)|it|you|your|such|anything|something|requests?)(?: (?:kinds?|types?"
    r"|sorts?) of| particular| specific| like| sensitive| harmful| inappropriate)*(?: (?:request|question|query"
    r"|topic|content|prompt|conversation|message|matter|task|subject|information|th(?:at|is)"
    r"|one)s?)?(?: with (?:that|this|it))?(?: (?:right now|at (?:this|the) (?:time|moment)|at present|here|for you"
    r"|yet))*$"
)
_CANNOT: Final = (
    r"(?:can(?:no|')?t|can not|won't|will not|won't be able to|(?:am |'m |are |'re |was |were )?(?:not able|unable"
    r"|not allowed|not going|not permitted) to)"
)
_SERVE: Final = (
    r"(?:help(?: you)?(?: out)?(?: with)?|assist(?: you)?(?: with| in)?|answer|respond(?: to)?|discuss"
    r"|comply(?: with)?|fulfil?l|continue(?: with)?|do|proceed(?: with)?|(?:engage|participate) (?:with|in)"
    r"|talk about|provide|generate|process|complete|create|share|provide (?:assistance|help|support) with)"
)
# Topics that platforms close as a whole; a refusal that names another may be an answer about it.
_CLOSED_TOPICS: Final = (
    r"(?:(?:the |any |sensitive |explicit |sexual |illegal |harmful |violent |medical )*(?:elections?|politics"
    r"|political (?:figures|topics|parties)|self-harm|suicide|weapons|explosives|violence|(?:sexual|explicit|illegal"
    r"|harmful|sensitive|violent) (?:content|topics|acts|activities|material)))"
)

REFUSALS: Final = (
    rf"(?:i|we) ?{_CANNOT} {_SERVE}(?: {_THIS}|$)",
    rf"(?:i|we) ?{_CANNOT} (?:help|assist)(?: you)? (?:with|in) .{{1,60}} (?:harm|illegal|unsafe|violat|inappropriate)",
    rf"(?:i|we) ?{_CANNOT} (?:help|assist|answer|respond|discuss|talk|engage|provide|share"
    rf"|give)\b.{{0,40}}\b(?:about|on|with|in|to) {_CLOSED_TOPICS}",
    r"(?:i|we) (?:must|have to|need to|am going to|would rather|prefer to) (?:respectfully )?(?:decline|refuse|pass)\b",
    r"(?:that|this|it) (?:goes|would go|is) against (?:my|our) (?:guidelines|policies|policy|principles|programming"
    r"|rules)",
    r"my (?:guidelines|policies|programming|instructions) (?:do not|don't|prevent|prohibit|forbid)\b",
    r"(?:i'd|i would) (?:prefer not to|rather not) (?:continue|discuss|answer|talk|respond)",
    r"(?:i|we)(?: do not|(?: a|')m not| don't)(?: feel)? comfortable (?:answering|discussing|with|talking|providing"
    r"|helping)",
    r"(?:request|prompt|content|message|response|output) (?:was |is |has been )?(?:blocked|filtered|flagged"
    r"|rejected) (?:by|due to|because of|for) (?:the |our |a )?(?:content|safety|moderation|policy|security|filter)",
    r"(?:this|that|your|the) (?:\w+ )?(?:request|question|prompt|content|message|response|output|topic)s? (?:may "
    r"|might |could |would |appears to |seems to )?(?:violates?(?! no\b)|goes? against|breach(?:es)?|is against"
    r"|is not allowed|(?:was|were|is|has been|have been) (?:blocked|filtered|flagged|rejected|removed|declined))\b",
    r"(?:that|this|it)(?:'s| is) (?:outside|beyond) (?:of )?(?:my|our) (?:current )?(?:scope|capabilities|guidelines)",
    r"(?:that|this|it)(?:'s| is|isn't| isn't)(?: not| something)* (?:that )?(?:i|we) ?(?:can(?:no|')?t|can"
    r"|am unable to|'?a?m (?:able|allowed) to|'re able to) (?:help|assist|discuss|answer|talk|do|provide)",
)
LIMITS: Final = (
    r"you(?:'ve| have)? (?:reached|hit|exceeded|used up|run out of)\b.{0,40}\b(?:limit|quota|messages|usage|credits"
    r"|searches|requests|queries)\b",
    r"(?:the |your |our )?(?:limit|quota) (?:has been |was |is )?(?:reached|exceeded|hit)\b",
    r"you(?:'ve| have)? used (?:all|up|100%)(?: of)?(?: your)?\b.{0,30}\b(?:limit|quota|messages|credits|searches"
    r"|requests|queries)\b",
    r"(?:the |your |our )?(?:(?:rate|usage|message|request|daily|free|monthly|hourly|plan|api|current) )+(?:limit"
    r"|quota)s?(?: has been| was| is)? ?(?:reached|exceeded|hit|$)",
    r"(?:\d{3} ?)?too many (?:requests|messages|people|users|attempts)\b",
    r"you(?:'re| are) (?:sending|making|asking) (?:messages|requests|questions)? ?too (?:quickly|fast|many|often"
    r"|frequently)",
    r"your (?:\w+ )?(?:limit|quota|usage) (?:will )?resets?\b",
    r"(?:you(?:'ve| have) reached the maximum length|(?:this |your |the )?(?:conversation|chat|thread) (?:is "
    r"|has become )?too long)\b",
    r"you(?:'re| are) out of (?:free |daily )?(?:messages|searches|credits|requests|queries)\b",
)
BLOCKS: Final = (
    r"(?:please |you (?:must|need to|have to) )?(?:log|sign)[ -]?(?:in|up)(?: or (?:log|sign)[ -]?(?:in"
    r"|up))?(?: again| with your account| to your account)?(?: (?:to|for|in order to) (?:continue(?: chatting"
    r"| reading| using)?|use|see|view|keep|get|chat|access|start|ask|save|read)\b|$)",
    r"(?:please |we need to |you need to )?(?:verify|confirm|prove) (?:that )?you(?:'re| are) (?:a |not a )?(?:human"
    r"|robot|bot)",
    r"you (?:must|need to|have to) be (?:logged|signed) in(?:$| to (?:use|view|access|continue|see|do) (?:this|that"
    r"|the)(?: \w+){1,2}$)|your account (?:has been|was|is) (?:suspended|disabled|banned|deactivated|locked)"
    r"|are you (?:a robot|human)$",
    r"(?:your )?(?:login|session)(?: has| is)? (?:expired|timed out|required)",
    r"checking (?:your browser|if the site connection is secure)|just a moment$|enable javascript and cookies",
    r"verifying (?:that )?you are human|(?:sorry, )?you have been blocked$",
    r"access (?:is |to this page (?:has been|is) )?denied|you (?:do not|don't) have (?:access|permission)",
    r"(?:this service|this feature|this app|our service|chatgpt|gemini|claude|copilot) is(?:n't"
    r"| not) (?:currently )?available in your (?:country|region|location|area)",
    r"(?:we(?:'ve| have)? detected |our systems? ha(?:s|ve) detected )(?:some )?unusual (?:activity|traffic)",
    r"unusual (?:activity|traffic) (?:has been |was )?(?:detected|from your|coming from)",
    r"(?:please )?(?:complete|solve) the (?:captcha|security check|challenge)",
)
FAILURES: Final = (
    r"(?:something|anything) (?:has |seems to have |must have )?(?:went|gone) wrong(?: (?:on|at) (?:our|my) (?:end"
    r"|side))?(?=$|[^a-z ]| (?:while|when|with|during|and|please|try|trying|processing|generating|loading|here)\b)"
    r"|error in (?:message|body|input) stream",
    r"(?:\w+ )?(?:is|are) (?:currently |temporarily )*(?:a bit busy|experiencing (?:\w+ )?(?:high|heavy) )",
    r"(?:our |the )?(?:\w+ )?(?:systems?|servers?|chatgpt|claude|gemini|copilot) (?:is|are)(?: a bit|n't"
    r"| not)? (?:busy|responding)",
    r"(?:an?|there (?:was|is|has been) an?|(?:i|we) (?:ran into|encountered|hit) an?) (?:\w+ )?(?:error|issue"
    r"|problem)\b(?: (?:has )?occurred| (?:while|when|with|during|doing|processing|generating|loading|fetching"
    r"|displaying)\b|$)",
    r"(?:network|server|internal(?: server)?|connection|unknown|unexpected|gateway) (?:error|timeout|failure)\b",
    r"upstream (?:connect|request) (?:error|timeout)",
    r"error code[ :#]*\d{3,4}$",
    r"(?:the |our |this )?(?:server|service|system|model|engine|site|chatgpt|claude|gemini|deepseek)s? (?:is|are"
    r"|was) (?:currently |temporarily |too |very )*(?:busy|overloaded|unavailable|down|offline|at capacity|under)\b",
    r"(?:the |your )?(?:request|connection|response|message|conversation|stream) (?:has |was )?(?:timed out|failed"
    r"|lost|interrupted|cancell?ed|aborted|error|could not be (?:completed|processed|sent|loaded|generated|found"
    r"|displayed))|(?:the |our )?server (?:encountered|returned) an? (?:\w+ )?error",
    r"(?:(?:i|we)(?:'re|'m| are| am)? )?(?:currently )?(?:unable|failed|couldn't|could not|was(?:n't| not) able"
    r"|were(?:n't| not) able)(?: to)? (?:load|show|display|generate|fetch|get|complete|connect|process|reach|produce"
    r"|finish)(?: the| a| an| your| to the| this)? (?:response|answer|reply|conversation|message|server|site|request"
    r"|content)",
    r"failed to fetch$|(?:the |this |your )?(?:answer|response|generation|output|search"
    r"|research)(?: generation)? (?:was |has been |is )?(?:stopped|interrupted|cancell?ed|aborted|failed)",
    r"you (?:stopped|cancell?ed|interrupted) (?:this|the) |stopped (?:thinking|searching|generating)$",
    r"(?:we're|we are) experiencing (?:\w+ )?(?:high|heavy) (?:demand|load|traffic)",
    r"(?:i'm|i am|we're|we are|(?:chatgpt|claude|gemini|copilot|deepseek|grok"
    r"|kimi) is) (?:currently )?having (?:trouble|issues|problems)\b",
    r"(?:http )?(?:error )?(?:50[0-4]|52[0-7]|40[013489]|429)(?: (?:bad gateway|service(?: temporarily)? unavailable"
    r"|gateway time-?out|internal|forbidden|unauthorized|authorization required|not found|request)|$)|bad gateway"
    r"|service (?:temporarily )?unavailable|gateway time-?out",
    r"no (?:response|answer|content)(?: was)?(?: generated| received| returned|$)",
)
COURTESIES: Final = (
    r"(?:please )?(?:try|check|come back|take a break|wait|hang tight|stand by|retry|refresh|reload|regenerate|ask"
    r"|reconnecting|retrying|rephrase|reword|edit|contact|start|review)\b",
    r"(?:if|for) (?:this|the|that|you|further|assistance)\b.{0,60}(?:issue|problem|error|persist|question|help"
    r"|assist|support)",
    r"to (?:continue|proceed)$|(?:is|are) there (?:anything|something|any other|another)\b",
    r"(?:could|can|would) you (?:please )?(?:try|rephrase|reword|repeat|ask)\b",
    r"i can (?:help|talk|chat|assist|discuss|try|answer|offer)\b.{0,24}\b(?:something|anything|other|another|else"
    r"|instead)\b",
    r"(?:i'm|i am) (?:programmed|designed|trained|built|made) to\b|my (?:purpose|goal|guidelines|training)\b",
    r"(?:i'm|i am) (?:just |only )?an? (?:\w+ ){0,2}(?:ai|language model|assistant|chatbot)\b",
    r"(?:can|could|may|how can|how may|how else can|what else can|what can) i (?:help|assist)\b",
    r"(?:please )?(?:feel free|you can|you may|i'd be (?:happy|glad)|i'm happy|i am happy|happy) to? ?(?:ask|try"
    r"|help|assist)",
    r"(?:let's|shall we|could we|can we|how about we) (?:talk|change|try something|discuss|chat)",
    r"(?:please )?(?:upgrade|subscribe|get plus|go pro|switch to|slow down)\b|learn more$|this may take|thank|thanks"
    r"|i (?:understand|appreciate)\b",
    r"(?:error|code|status|request id|ray id|reference)(?: code| id)?[ :#]*[\w-]{2,40}$|(?:hello|hi|hi there|yes|no"
    r"|ok)$",
    r"(?:i'm |i am |we're |we are )?(?:so |very |really |truly )?sorry(?: about| for|$)|(?:my )?apologies"
    r"|i apologi[sz]e|oops$",
)
SIGNATURES: Final = (
    r"(?:nginx|openresty|cloudflare|apache|envoy)(?:/[\w.]+)?$|(?:transport failure"
    r"|(?:retried and the latest )?reset) reason",
)
"""What servers write under their failures."""

LEADS: Final = (
    r"(?:(?:(?:i'm |i am |we're |we are )?(?:so |very |really |truly )?(?:sorry|afraid(?: that)?)|(?:my )?apologies"
    r"|i apologi[sz]e|unfortunately|regrettably|oops|uh-oh|hmm+|as an ai(?: language)?(?: model| assistant)?"
    r"|it (?:looks|seems|appears) (?:like|that)|hello|hi|and|so|but|however|error|failed)[,:!]? )+"
)
TAILS: Final = (
    r"[a-z]*(?:$|[^a-z ]| \d{3}$| (?:in|on|for|from|to|at|by (?:completing|clicking)|until|while|when|during|and|or"
    r"|now|right|please|as|of|processing|generating|with (?:your|the|our|this) (?:\w+ )?(?:request|response"
    r"|connection|network|servers?|service|model|app|page|site|search|message|conversation|answer|question|system)"
    r"|an?|your|the|our|this|that|us|you|me|after|before|again|soon|later|yet|until|because of|occurred|coming|error"
    r"|what|content|\w+ (?:policy|policies|guidelines)|message|messages|response|more|too|anymore)\b)"
)
"""How a sentence may go on behind a notice: with where, when and whose, not with what it says of it."""

TURNS: Final = (
    r"\b(?:but|however|instead|so|although|except|which|because|recommend|suggest|once|unless)\b"
    r"|\w[^:]*: \w+ \w"  # "failed in court: one lost", not "failed: connection reset"
)
"""Words behind which a sentence goes on to say something after all."""
