"""Which parts of words together make a notice, and of what kind (3-results §3.1)."""

from enum import StrEnum
from typing import Final

from domain.parsing.notices_parts import Part


class Notice(StrEnum):
    """What a platform said instead of an answer, the gravest first; the values are those of the answers' kinds."""

    RATE_LIMITED = "rate_limited"
    BLOCKED = "blocked"
    REFUSAL = "refusal"
    ERROR = "error"


Forms = tuple[frozenset[Part], ...]


def _forms(*forms: str) -> Forms:
    return tuple(frozenset(map(Part, form.split())) for form in forms)


Table = tuple[tuple[Notice, Forms], ...]

FORMS: Final[Table] = (
    (Notice.RATE_LIMITED, _forms("limit spent", "metered spent", "metered too many")),
    (Notice.RATE_LIMITED, _forms("you serve again time", "you metered again time", "throttled")),
    (Notice.BLOCKED, _forms("gate", "verify human", "account barred", "region absent")),
    (Notice.REFUSAL, _forms("talk banned", "me not policy", "us not policy", "talk not policy")),
    (Notice.REFUSAL, _forms("us banned policy", "beyond scope", "change")),
    (Notice.ERROR, _forms("outage")),
    (Notice.REFUSAL, _forms("me not serve", "us not serve", "product not serve", "talk not serve", "me not work")),
    (Notice.REFUSAL, _forms("me decline", "us decline", "product decline", "talk decline")),
    (Notice.ERROR, _forms("system fail", "talk fail", "work fail", "us fail", "product fail")),
    (Notice.ERROR, _forms("talk not work", "system not work", "us not work")),
    (Notice.ERROR, _forms("system busy", "product busy", "me busy", "us busy")),
)
"""What makes a notice in one sentence, even beside a strange word; the first that fits gives the kind."""

HINTS: Final[Table] = (
    (Notice.RATE_LIMITED, _forms("pay metered", "pay limit", "pay spent", "pay time")),
    (Notice.BLOCKED, _forms("login", "account please", "verify account")),
    (Notice.REFUSAL, _forms("sorry else", "not else", "banned else", "me banned", "us banned", "me not scope")),
    (Notice.ERROR, _forms("retry sorry", "retry not", "retry fail", "retry busy", "retry time", "you busy")),
    (Notice.ERROR, _forms("retry talk", "retry serve", "retry system", "me fail")),
)
"""What makes a notice only where the whole message has no strange word."""
