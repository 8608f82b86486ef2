"""English phrases that deny knowledge of a name (3-results §3.3)."""

import re
from typing import Final

from domain.parsing.denials import NAME, NAMES, denials

_INFO: Final = (
    r"(?:information|info|data|details?|results?|mentions?|records?|evidence|references?|sources?"
    r"|knowledge|entries|matches|articles|reports|coverage|documentation)"
)
_ADJECTIVES: Final = (
    r"(?:(?:any|much|a|an|the|specific|reliable|public|publicly|available|relevant|detailed"
    r"|verified|further|official|credible|current|recent|direct|explicit|concrete|clear|such"
    r"|definitive|substantial|single|trustworthy|up-to-date|real|meaningful|search|enough|sufficient|prior|factual) )"
    r"{0,5}"
)
# Between "no information" and "about X". Anything else names a topic: "no mentions of downtime for X".
_FILLER: Final = (
    r"(?: (?:available|found|online|currently|publicly|published|provided|returned|listed|located|at|all|in|my|the"
    r"|this|these|your|search|results|sources|database|knowledge|base|training|data|context|web|internet|is|was|were"
    r"|are|has|have|had|been|could|can|be|that|which|exists?|specifically|directly|here|there|i|to|share)){0,7}?"
)
_ABOUT: Final = r"(?:about|on|of|for|regarding|concerning|related to|relating to|mentioning|with)"
_ONLY_ABOUT: Final = r"(?:about|on|for|regarding|concerning|related to|relating to)"
_KIND: Final = (
    r"(?:(?:the|a|an|this|that|any|company|brand|product|tool|service|software|platform|app"
    r"|business|organization|entity|called|named|known as|as|like|specific|exact|term|name) ){0,5}"
)
# "no information about Acme's pricing" leaves Acme itself known.
_WHOLE: Final = r"(?!'s? [a-z])(?![a-z])"
_WHO: Final = rf"{_KIND}{NAMES}{_WHOLE}"
_NOT_SO: Final = r"(?! (?:as|to|[a-z]+ing)\b)"  # "do not show Acme to be slow"
_NOT_SOLD: Final = r"(?! (?:at|in (?:the )?(?:stores?|shops?))\b)"
_NO_TRAIT: Final = r"(?! (?:that|which|to|is|was|has|seems|makes)\b)"  # "nothing about Acme is cheap"
_UNLESS_READER: Final = r"(?<!you )(?<!users )(?<!customers )(?<!people )(?<!they )"
_NOT: Final = r"(?:not|n't)"
_CANNOT: Final = (
    rf"(?:(?:could|can|did|do|does|have|has|was|were|am|are|is) ?{_NOT}|cannot|can't|unable to"
    r"|failed to|fail to|haven't|i'm not)(?: seem to)?"
)
_FIND: Final = (
    r"(?:find|found|locate|located|identify|identified|verify|retrieve|recognize|recogni[sz]e"
    r"|come across|turn up|return|returned|show|surface|see)"
)
_SOURCES: Final = (
    r"(?:results?|sources?|data|documents?|context|information|articles?|references?|citations?|text|excerpts?"
    r"|snippets?|pages?|materials?|records?|files?|knowledge|base|databases?|reports?|websites?|web|internet)"
)
_WHICH: Final = (
    r"(?:(?:the|my|these|those|this|any|all|your|our|its|either|of|search|provided|available|given|current|public"
    r"|retrieved|web|cited|training|knowledge|above|listed|supplied|existing|online|official) ){0,6}"
)
_IN_SOURCES: Final = rf" (?:in|among|on|by|within) {_WHICH}{_SOURCES}\b"
_END: Final = r"(?: anywhere| at all| here| online)?(?= ?(?:[,.;:!?|)]|$)| (?:and|but|so|or)\b)"
_MENTION: Final = (
    r"(?:mention|include|cover|discuss|reference|refer to|list|contain|describe|feature|name|talk about|show|return)"
    r"(?:s|ed)?(?: any(?:thing)? (?:about|of|on))?"
)

_SELF: Final = (
    r"(?:(?:my|our|the model's) (?:[a-z]+ )?(?:knowledge|training|data|database|scope|memory)"
    r"|the (?:knowledge base|training data))"
)

# The name comes first: "Acme is not mentioned in the sources".
_NAMED: Final = (
    rf"{NAMES} (?:is|are|was|were|falls?|lies) ?(?:{_NOT} (?:included |present |covered |part |found )?"
    rf"(?:in|within|of|by)|outside(?: of)?|beyond) {_SELF}\b",
    rf"{NAMES} (?:(?:is|are) unknown to me|does ?{_NOT} ring (?:a|any) bell|may ?{_NOT} (?:even |actually )?exist\b)",
    rf"{NAMES} (?:(?:is|are|was|were|does|do|did|has|have|could|can) ?{_NOT}|cannot|can't) (?:been |be )?"
    r"(?:currently |explicitly |specifically |directly )?"
    r"(?:(?:mentioned|found|referenced|appear|(?:appear|seem) to exist|exist|show up|come up)"
    rf"(?:{_IN_SOURCES}|{_END})|known to me"
    rf"|(?:listed|included|covered|present|featured){_IN_SOURCES})",
    rf"{NAMES} (?:is|are) ?{_NOT} (?:something|anything|one"
    r"|an? (?:[a-z]+ )?(?:company|brand|product|name|tool|service)) (?:that |which )?"
    r"(?:i'm|i am|i've|i have|i|we're|we are|we) (?:[a-z]+ )?"
    r"(?:aware of|familiar with|acquainted with|heard of|know|recogni[sz]e|come across)\b",
    rf"{NAMES} ?[:|-] ?(?:no {_ADJECTIVES}{_INFO}|not found|unknown\b|n/a\b)",
)
# "I could not find Acme", "I have no way to confirm that Acme exists".
_UNABLE: Final = (
    rf"\b{_CANNOT} (?:able to |currently |directly )?"
    rf"(?:{_FIND}|have|know|contain|provide|access|possess) {_ADJECTIVES}{_INFO}{_FILLER} {_ABOUT} {_WHO}",
    rf"\b{_CANNOT} (?:able to |currently |directly )?(?:{_FIND}|have) anything"
    rf"(?: (?:specific|reliable|concrete|relevant|definitive|useful|online|at all))? {_ONLY_ABOUT} {_WHO}",
    rf"\b{_CANNOT} (?:able to )?{_FIND} {_ADJECTIVES}{_WHO}{_NOT_SO}{_NOT_SOLD}",
    rf"\b{_CANNOT} (?:able to )?(?:recall|remember) {_ADJECTIVES}(?:anything |{_INFO} )?(?:about |of |on )?"
    rf"{_WHO}{_NOT_SO}",
    rf"\b{_CANNOT} (?:able to )?(?:verify|confirm|establish|determine) (?:that|if|whether) {_KIND}{NAMES} "
    r"(?:even |actually |really )?(?:exists?|is (?:a )?real)\b",
    rf"\b{_CANNOT} (?:able to )?(?:verify|confirm|establish) the existence of {_WHO}",
)
# "I found nothing about Acme", "no information about Acme".
_NOTHING: Final = (
    rf"\b(?:no|without|lack of|insufficient) {_ADJECTIVES}{_INFO}{_FILLER} {_ABOUT} {_WHO}",
    rf"\b(?:i|we) lack {_ADJECTIVES}{_INFO} {_ONLY_ABOUT} {_WHO}",
    rf"\bno (?:trace|records?) of {_WHO}{_NOT_SO}",
    rf"\bno such {_WHO}",
    rf"\b(?:i|we)(?:'ve| have)? (?:[a-z]+ ){{0,3}}(?:but )?(?:found|find|see|know of) no {_WHO}"
    r"(?=[.,;:!?|)]|$| (?:in|among|on|at all|listed|anywhere|here|either)\b)",
    rf"{_UNLESS_READER}\b(?:found|find|located|have|has|know|knows|returned?|yield(?:s|ed)|contains?|shows?|says?"
    rf"|is|was|there's) (?:absolutely |virtually )?nothing(?: (?:specific|relevant|useful|online|available|at all))? "
    rf"{_ONLY_ABOUT} {_WHO}{_NO_TRAIT}",
    rf"\bnothing (?:(?:is|was|has|been|could|can|be|came|comes|turned|turns|up|relevant|specific|found|available|known"
    rf"|published|returned|mentioned|reported) ){{1,4}}{_ONLY_ABOUT} {_WHO}{_NO_TRAIT}",
    rf"\bnothing in {_WHICH}{_SOURCES} (?:refers? to|mentions?|covers?|discuss(?:es)?|says anything about) {_WHO}",
    rf"\b(?:none|neither) of {_WHICH}{_SOURCES}(?: [a-z']+){{0,3}}? {_MENTION} {_WHO}{_NOT_SO}",
)
# "The sources do not mention Acme", "there is no company called Acme".
_UNSAID: Final = (
    rf"(?:\b(?:is|are|was|were)|'s) ?{_NOT} (?:currently )?(?:any|much|enough|sufficient) {_ADJECTIVES}"
    rf"{_INFO}{_FILLER} {_ABOUT} {_WHO}",
    rf"\b{_INFO} {_ABOUT} {_KIND}{NAMES} (?:(?:is|was|are|were|could|can) ?{_NOT}|cannot|can't|is un)"
    r" ?(?:be )?(?:currently |publicly |readily )?(?:available|found|located|known)",
    rf"\b{_SOURCES}(?: (?:i|we|you|that|found|provided|shared|gave|available|above|retrieved|here|currently)){{0,4}}"
    rf" (?:do|does|did) ?{_NOT} (?:[a-z]+ly |even )?{_MENTION} {_WHO}{_NOT_SO}",
    rf"\bthere (?:(?:is|was|are|were|seems? to be|appears? to be) no|(?:(?:is|was|are|were|does|do) ?{_NOT}"
    rf"|(?:seems?|appears?) ?{_NOT})(?: appear| seem)?(?: to (?:be|exist))?(?: any| an?| one)?) (?:[a-z]+ )?"
    r"(?:company|brand|product|tool|service|business|organization|firm|app|startup)"
    rf" (?:called|named|known as|by the name(?: of)?) {_WHO}(?! (?:that|which) (?!i\b|we\b|exists?\b))",
)
_KNOWING: Final = (
    rf"(?:\bnot|n't|\bun) ?(?:aware of|familiar with|heard of|acquainted with) {_ADJECTIVES}{_WHO}",
    rf"\bnever heard of {_WHO}",
    rf"\b(?:i|we) (?:(?:really|currently|honestly|personally) )?do ?{_NOT} (?:(?:really|currently|actually) )?"
    rf"know(?: anything| enough)?(?: about| of)? {_WHO}(?! well\b)",
)
# "you can't find Acme" speaks of the reader
_READERS: Final = re.compile(r"(?:you|users|customers|people|they) \Z")
# "if you haven't heard of Acme", "those who are not familiar with Acme"
_OTHERS: Final = re.compile(
    r"\b(?:if|unless|you|users?|customers?|they|people|those|who|readers?|anyone|someone|everyone|many|most|others"
    r"|he|she)(?:'re|'ve|'d)?(?: (?!(?:i|we)\b)[a-z']+){0,3} ?\Z"
)

_UNABLE_GATE: Final = (
    rf"\b{_CANNOT} (?:able to |currently |directly )?"
    rf"(?:{_FIND}|have|know|contain|provide|access|possess|recall|remember|verify|confirm|establish|determine)"
)
_UNSAID_GATE: Final = (
    rf"{_NOT} (?:currently )?(?:any|much|enough|sufficient) |(?:available|found|located|known|called|named|name)\b"
    rf"|(?:do|does|did) ?{_NOT} "
)

# Each form begins with a letter, for which the search looks first: hence "n at a word's begin, o" for "\bno".
NEGATION: Final = re.compile(r"n(?:(?<=\bn)o|ot|'t|ever|either|/a)|u(?<=\bu)n|fail|without|lack|insuff|outside|beyond")
"""A sentence without any of these denies nothing."""

ENGLISH: Final = (
    denials(_NAMED, NAME),
    denials(_UNABLE, _UNABLE_GATE, _READERS),
    denials(_NOTHING, r"\bno(?:ne|thing)?\b|without|\black|insufficient|\bneither\b"),
    denials(_UNSAID, _UNSAID_GATE),
    denials(_KNOWING, r"aware of|familiar with|heard of|acquainted with|know", _OTHERS),
)
