"""What the phrases that deny knowledge of a name are made of (3-results §3.3).

They match a template: a sentence in folded text with each name written as one placeholder
character. Every repetition is bounded, so that matching takes time linear in the template.
"""

import re
from dataclasses import dataclass
from typing import Final

NAME: Final = "\ue000"
"""The placeholder of one name."""

NAMES: Final = rf"{NAME}(?>(?:(?:[\s,、/&和与及或]|and|or|以及|或者){{1,8}}{NAME}){{0,20}})"
"""One or several names in a row: "Acme, Foo and Bar", "Acme、Foo和Bar"."""

_BEFORE: Final = 48


@dataclass(frozen=True, slots=True)
class Denials:
    """Phrases of denial; ``someone_elses`` ends a beginning that makes them another's ignorance."""

    phrases: tuple[re.Pattern[str], ...]
    someone_elses: re.Pattern[str] | None = None

    def speak_at(self, template: str, start: int) -> bool:
        """Whether a phrase at ``start`` is the answer's own: "you may not know X" presents X."""
        if self.someone_elses is None:
            return True
        return self.someone_elses.search(template, max(0, start - _BEFORE), start) is None
