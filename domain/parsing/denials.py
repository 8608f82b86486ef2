"""What the phrases that deny knowledge of a name are made of (3-results §3.3).

They match a template: a sentence in folded text with each name written as one placeholder
character. Every repetition is bounded, so that matching takes time linear in the template.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

NAME: Final = "\ue000"
"""The placeholder of one name."""

NAMES: Final = rf"{NAME}(?>(?:(?:[\s,、/&和与及或]|and|or|以及|或者){{1,8}}{NAME}){{0,20}})"
"""One or several names in a row: "Acme, Foo and Bar", "Acme、Foo和Bar"."""

_BEFORE: Final = 48


@dataclass(frozen=True, slots=True)
class Denials:
    """Phrases of denial, each of which needs something of ``gate``, which is quick to look for.

    ``someone_elses`` ends a beginning that makes a phrase another's ignorance: "you may not know X" presents X.
    """

    phrases: tuple[re.Pattern[str], ...]
    gate: re.Pattern[str]
    someone_elses: re.Pattern[str] | None = None

    def spans(self, template: str) -> Iterator[Iterator[tuple[int, int]]]:
        """For each phrase that matches, where it does as the answer's own, in order."""
        if not self.gate.search(template):
            return
        for phrase in self.phrases:
            if phrase.search(template):
                yield (each.span() for each in phrase.finditer(template) if self._is_own(template, each.start()))

    def _is_own(self, template: str, start: int) -> bool:
        if self.someone_elses is None:
            return True
        return self.someone_elses.search(template, max(0, start - _BEFORE), start) is None


def denials(phrases: Iterable[str], gate: str, someone_elses: re.Pattern[str] | None = None) -> Denials:
    """Compiled phrases."""
    return Denials(tuple(map(re.compile, phrases)), re.compile(gate), someone_elses)
