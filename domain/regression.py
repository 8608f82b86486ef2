"""Regression files: what people said of doubtful answers, held against today's extractor (3-results §3.3).

One JSON object a line, with everything that judging the answer takes; `giveway badcases export` writes them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from domain.errors import InvalidInput
from domain.parsing.names import BrandName
from domain.readings import Reading, Subject, read_for

Count = Annotated[int, msgspec.Meta(ge=1)]
Offset = Annotated[int, msgspec.Meta(ge=0)]


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A brand or a competitor, as it was when the label was put on."""

    name: str
    aliases: tuple[str, ...] = ()


class ExpectedMention(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A name that counts. Without `first_offset` (code points) the place in the text is not compared."""

    name: str
    count: Count
    position: Count
    first_offset: Offset | None = None


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person's word: every name that counts is listed, the others do not count."""

    is_answer: bool
    mentions: tuple[ExpectedMention, ...] = ()
    absence: bool = False


class RegressionCase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer with its label. `body` as the platform sent it; `reason`: the doubt that led to the label."""

    id: str
    platform: str
    question: str
    brand: Named
    body: str
    expected: Expected
    competitors: tuple[Named, ...] = ()
    own_domains: tuple[str, ...] = ()
    competitor_domains: tuple[str, ...] = ()
    reason: str | None = None
    note: str | None = None
    wire: str | None = None
    extractor_version: str | None = None

    @property
    def subject(self) -> Subject:
        """Whom the answer is searched for."""
        rivals = (
            BrandName(f"competitor:{each.name}", "competitor", each.name, each.aliases) for each in self.competitors
        )
        return Subject(
            names=(BrandName("brand", "brand", self.brand.name, self.brand.aliases), *rivals),
            own_domains=self.own_domains,
            competitor_domains=self.competitor_domains,
            question=self.question,
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the extractor does not say what the label says; `field` such as `absence` or `Acme.count`."""

    case: str
    field: str
    expected: Any
    found: Any


class RegressionFileRefused(InvalidInput):
    """A line of a regression file is no case."""

    code = "regression_file_refused"


_DECODER: Final = msgspec.json.Decoder(RegressionCase)


def read_cases(text: str) -> list[RegressionCase]:
    """The cases of a file in order; empty lines are none. RegressionFileRefused names the first wrong line."""
    return list(_cases(text))


def _cases(text: str) -> Iterator[RegressionCase]:
    for number, line in enumerate(text.split("\n"), start=1):  # not splitlines: JSON strings may hold U+2028
        if not line.strip():
            continue
        try:
            yield _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise RegressionFileRefused(f"line {number}: {error}") from error


def write_cases(cases: list[RegressionCase]) -> str:
    """The file's text."""
    return "".join(msgspec.json.encode(case).decode() + "\n" for case in cases)


def differences(case: RegressionCase) -> list[Difference]:
    """What today's extractor says otherwise than the label; none when they agree."""
    reading = read_for(case.body.encode(), case.subject, platform=case.platform)
    compared = _compared(case.expected, reading)
    return [Difference(case.id, field, wanted, found) for field, wanted, found in compared if wanted != found]


def _compared(expected: Expected, reading: Reading) -> Iterator[tuple[str, Any, Any]]:
    yield "is_answer", expected.is_answer, reading.answer.kind.is_answer
    yield "absence", expected.absence, reading.absence
    wanted = {each.name: each for each in expected.mentions}
    found = {each.name: each for each in reading.mentions}
    for name in wanted | found:
        mention = wanted.get(name)
        shown = found.get(name)
        yield f"{name}.count", mention.count if mention else 0, shown.count if shown else 0
        if mention and shown:
            yield f"{name}.position", mention.position, shown.position
            if mention.first_offset is not None:
                yield f"{name}.first_offset", mention.first_offset, shown.first_offset
