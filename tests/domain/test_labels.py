"""What follows from a person's label: the figures an extractor would have, of known names alone (3-results §3.3)."""

import pytest

from domain.errors import InvalidInput, UnknownName
from domain.labels import Label, LabelledMention, check_offsets, figures_of
from domain.parsing.names import BrandName

NAMES = (
    BrandName("brand", "brand", "Nimbus", ("云记", "Nimbus Notes")),
    BrandName("competitor:7", "competitor", "Moye", ("墨页",)),
    BrandName("competitor:8", "competitor", "Nimbus Notes", ()),
)


def said(*mentions: tuple[str, int, int], absence: bool = False) -> Label:
    return Label(True, tuple(LabelledMention(*each) for each in mentions), absence)


def test_figures_are_those_an_extractor_would_store() -> None:
    figures = figures_of(said(("Moye", 3, 1), ("Nimbus", 1, 2)), NAMES)
    assert (figures.brand_mentioned, figures.brand_mention_count, figures.brand_position) == (True, 1, 2)
    assert (figures.share_of_voice, figures.competitor_mention_count) == (0.25, 3)
    assert [(owner.key, mention.count) for owner, mention in figures.mentions] == [("competitor:7", 3), ("brand", 1)]


def test_an_answer_that_names_nobody_has_no_share_of_voice() -> None:
    figures = figures_of(said(), NAMES)
    assert (figures.brand_mentioned, figures.share_of_voice, figures.mentions) == (False, None, ())


def test_an_absent_brand_may_stand_beside_a_mentioned_one() -> None:
    figures = figures_of(said(("Nimbus", 2, 1), absence=True), NAMES)
    assert (figures.absence, figures.brand_mentioned) == (True, True)


@pytest.mark.parametrize("spelling", ["nimbus", "ＮＩＭＢＵＳ", "云记", " Nimbus "])
def test_a_name_is_found_by_alias_case_and_width(spelling: str) -> None:
    ((owner, _),) = figures_of(said((spelling, 1, 1)), NAMES).mentions
    assert owner.name == "Nimbus"


def test_a_name_of_one_is_that_ones_though_it_is_an_alias_of_another() -> None:
    ((owner, _),) = figures_of(said(("Nimbus Notes", 1, 1)), NAMES).mentions
    assert owner.key == "competitor:8"


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UnknownName) as refused:
        figures_of(said(("Nimbos", 1, 1)), NAMES)
    assert refused.value.context["known"] == ["Nimbus", "Moye", "Nimbus Notes"]


def test_a_name_counts_once_whatever_it_is_called() -> None:
    with pytest.raises(InvalidInput, match="twice"):
        figures_of(said(("Nimbus", 1, 1), ("云记", 1, 2)), NAMES)


@pytest.mark.parametrize("label", [Label(False, (LabelledMention("Nimbus", 1, 1),)), Label(False, absence=True)])
def test_what_is_no_answer_says_nothing_of_any_name(label: Label) -> None:
    with pytest.raises(InvalidInput):
        figures_of(label, NAMES)


def test_a_mention_begins_inside_the_answer() -> None:
    label = Label(True, (LabelledMention("Nimbus", 1, 1, first_offset=6),))
    check_offsets(label, "Nimbus!")
    check_offsets(label, "")
    with pytest.raises(InvalidInput):
        check_offsets(label, "Nimbus")
