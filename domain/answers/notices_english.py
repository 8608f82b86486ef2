"""How English messages refuse, limit, block and fail: the beginnings of their sentences, in lower case."""

from typing import Final

# What a refusal may name without saying anything: the request itself, never a topic.
_THIS: Final = (
    r"(?:th(?:at|is|is one|ese|ose)|it|you|your|such|anything|something|requests?)"
    r"(?: (?:kinds?|types?|sorts?) of| particular| specific| like| sensitive| harmful| inappropriate)*"
    r"(?: (?:request|question|query|topic|content|prompt|conversation|message|matter|task|subject"
    r"|information|th(?:at|is)|one)s?)?"
    r"(?: with (?:that|this|it))?(?: (?:right now|at (?:this|the) (?:time|moment)|at present|here|for you|yet))*$"
)
_CANNOT: Final = (
    r"(?:can(?:no|')?t|can not|won't|will not|won't be able to|(?:am |'m |are |'re |was |were )?(?:not able|unable"
    r"|not allowed) to)"
)
_SERVE: Final = (
    r"(?:help(?: you)?(?: out)?(?: with)?|assist(?: you)?(?: with| in)?|answer|respond(?: to)?|discuss|comply(?: with)?"
    r"|fulfil?l|continue(?: with)?|do|proceed(?: with)?|engage (?:with|in)|talk about|provide|generate|process"
    r"|complete|create|share|provide (?:assistance|help|support) with)"
)

REFUSALS: Final = (
    rf"(?:i|we) ?{_CANNOT} {_SERVE}(?: {_THIS}|$)",
    rf"(?:i|we) ?{_CANNOT} (?:help|assist)(?: you)? (?:with|in) .{{1,60}} (?:harm|illegal|unsafe|violat|inappropriate)",
    r"(?:i|we) (?:must|have to|need to|am going to|would rather|prefer to) (?:respectfully )?(?:decline|refuse|pass)\b",
    r"(?:i'd|i would) prefer not to (?:continue|discuss|answer|talk)",
    r"(?:this|that|your|the) (?:\w+ )?(?:request|question|prompt|content|message|response|output|topic)s? (?:may "
    r"|might "
    r"|could |would |appears to |seems to )?(?:violates?|goes? against|breach(?:es)?|is against|is not allowed"
    r"|(?:was|were"
    r"|is|has been|have been) (?:blocked|filtered|flagged|rejected|removed|declined))\b",
    r"(?:that|this|it)(?:'s| is) (?:outside|beyond) (?:of )?(?:my|our) (?:current )?(?:scope|capabilities|guidelines)",
    r"(?:that|this)(?:'s| is)(?: not| something)* (?:that )?i (?:can(?:no|')?t|can|am unable to) (?:help|assist"
    r"|discuss)",
)
LIMITS: Final = (
    r"you(?:'ve| have)? (?:reached|hit|exceeded|used up|run out of)\b.{0,40}"
    r"\b(?:limit|quota|messages|usage|credits|searches|requests|queries)\b",
    r"(?:the |your |our )?(?:(?:rate|usage|message|request|daily|free|monthly|hourly|plan|api|current) )+(?:limit"
    r"|quota)s?"
    r"(?: has been| was| is)? ?(?:reached|exceeded|hit|$)",
    r"(?:\d{3} ?)?too many (?:requests|messages|people|users|attempts)\b",
    r"you(?:'re| are) (?:sending|making|asking) (?:messages|requests|questions)? ?too (?:quickly|fast|many|often"
    r"|frequently)",
    r"your (?:limit|quota|usage) (?:will )?resets?\b",
    r"you(?:'re| are) out of (?:free |daily )?(?:messages|searches|credits|requests|queries)\b",
)
BLOCKS: Final = (
    r"(?:please |you (?:must|need to|have to) )?(?:log|sign)[ -]?(?:in|up)(?: or (?:log|sign)[ -]?(?:in|up))?"
    r"(?: again| with your account| to your account)?(?: (?:to|for|in order to) (?:continue(?: chatting"
    r"| reading)?|use|see|view|keep"
    r"|get|chat|access|start|ask|save|read)\b|$)",
    r"(?:please )?(?:verify|confirm|prove) (?:that )?you(?:'re| are) (?:a |not a )?(?:human|robot|bot)",
    r"(?:your )?(?:login|session)(?: has| is)? (?:expired|timed out|required)",
    r"checking (?:your browser|if the site)|just a moment$|enable javascript and cookies",
    r"verifying (?:that )?you are human|(?:sorry, )?you have been blocked$",
    r"access (?:is |to this page (?:has been|is) )?denied|you (?:do not|don't) have (?:access|permission)",
    r"(?:this service|this feature|this app|our service|chatgpt|gemini|claude|copilot) is(?:n't| not) (?:currently )?"
    r"available in your (?:country|region|location|area)",
    r"(?:we (?:have )?detected |our systems have detected )?unusual (?:activity|traffic)(?: has been detected"
    r"| detected)?",
    r"(?:please )?(?:complete|solve) the (?:captcha|security check|challenge)",
)
FAILURES: Final = (
    r"(?:something|anything) (?:has |seems to have )?(?:went|gone) wrong\b|error in (?:message|body) stream",
    r"(?:\w+ )?(?:is|are) (?:currently |temporarily )*(?:a bit busy|experiencing (?:\w+ )?(?:high|heavy) )",
    r"(?:our |the )?(?:\w+ )?(?:systems?|servers?|chatgpt|claude|gemini|copilot) (?:is|are)(?: a bit|n't"
    r"| not)? (?:busy|responding)",
    r"(?:an?|there (?:was|is|has been) an?|(?:i|we) (?:ran into|encountered|hit) an?) (?:\w+ )?(?:error|issue"
    r"|problem)\b"
    r"(?: (?:has )?occurred| (?:while|when|with|during|processing|generating)\b|$)",
    r"(?:network|server|internal(?: server)?|connection|unknown|unexpected|gateway) (?:error|timeout|failure)",
    r"(?:the |our |this )?(?:server|service|system|model|engine|site|chatgpt|claude|gemini|deepseek)s? (?:is|are|was) "
    r"(?:currently |temporarily |too |very )*(?:busy|overloaded|unavailable|down|offline|at capacity|under)\b",
    r"(?:the |your )?(?:request|connection|response|message|conversation|stream) (?:has |was )?(?:timed out|failed|lost"
    r"|interrupted|cancell?ed|aborted|error|could not be)",
    r"(?:(?:i|we) )?(?:unable|failed|couldn't|could not|was(?:n't| not) able|were(?:n't| not) able)(?: to)? (?:load"
    r"|generate"
    r"|fetch|get|complete|connect|process|reach|produce|finish)(?: the| a| an| your| to the| this)? (?:response"
    r"|answer|reply"
    r"|conversation|message|server|site|request|content)",
    r"(?:the )?(?:answer|response|generation|output|search|research) (?:was |has been |is )?(?:stopped|interrupted"
    r"|cancell?ed"
    r"|aborted|failed)",
    r"you (?:stopped|cancell?ed|interrupted) (?:this|the) |stopped (?:thinking|searching|generating)$",
    r"(?:we're|we are) experiencing (?:\w+ )?(?:high|heavy) (?:demand|load|traffic)",
    r"(?:i'm|i am|we're|we are) (?:currently )?having (?:trouble|issues|problems)\b",
    r"(?:http )?(?:error )?(?:50[0-4]|40[0348])(?: (?:bad gateway|service|gateway time-?out|internal|forbidden"
    r"|not found|request)|$)"
    r"|bad gateway|service (?:temporarily )?unavailable|gateway time-?out",
    r"no (?:response|answer|content)(?: was)?(?: generated| received| returned|$)",
)
COURTESIES: Final = (
    r"(?:please )?(?:try|check|come back|take a break|wait|hang tight|stand by|retry|refresh|reload|regenerate"
    r"|rephrase|reword"
    r"|edit|contact|start|review)\b",
    r"(?:if|for) (?:this|the|that|you|further|assistance)\b.{0,60}(?:issue|problem|error|persist|question|help"
    r"|assist|support)",
    r"(?:is|are) there (?:anything|something|any other|another)\b",
    r"(?:can|could|may|how can|how may|how else can|what else can|what can) i (?:help|assist)\b",
    r"(?:please )?(?:feel free|you can|you may|i'd be (?:happy|glad)|i'm happy|i am happy|happy) to? ?(?:ask|try"
    r"|help|assist)",
    r"(?:let's|shall we|could we|can we|how about we) (?:talk|change|try something|discuss|chat)",
    r"(?:upgrade|subscribe|get plus|go pro|switch to)\b|learn more$|this may take|thank|thanks|i (?:understand"
    r"|appreciate)\b",
    r"(?:error|code|status|request id|ray id|reference)(?: code| id)?[ :#]*[\w-]{2,40}$|(?:hello|hi|hi there|yes|no"
    r"|ok)$",
    r"(?:i'm |i am |we're |we are )?(?:so |very |really |truly )?sorry(?: about| for|$)|(?:my )?apologies"
    r"|i apologi[sz]e|oops$",
)
SIGNATURES: Final = (r"(?:nginx|openresty|cloudflare|apache|envoy)(?:/[\w.]+)?$",)
"""What servers write under their failures."""

LEADS: Final = (
    r"(?:(?:(?:i'm |i am |we're |we are )?(?:so |very |really |truly )?sorry|(?:my )?apologies|i apologi[sz]e"
    r"|unfortunately"
    r"|regrettably|oops|uh-oh|hmm+|as an ai(?: language)?(?: model| assistant)?|hello|hi|and|so|but|however|error"
    r"|failed)[,:!]? )+"
)
TAILS: Final = (
    r"[a-z]*(?:$|[^a-z ]| (?:in|on|for|from|to|at|by|until|while|when|during|and|or|now|right|please|as|of|processing"
    r"|generating|with (?:your|the|our|this)|an?|your|the|our|this|that|us|you|me|after|before|again|soon|later|yet"
    r"|until"
    r"|because of|occurred|content|\w+ (?:policy|policies|guidelines)|message|messages|response|more|too|anymore)\b)"
)
"""How a sentence may go on behind a notice: with where, when and whose, not with what it says of it."""

TURNS: Final = r"\b(?:but|however|instead|so|although|except|which|because|recommend|suggest)\b"
"""Words behind which a sentence goes on to say something after all."""
