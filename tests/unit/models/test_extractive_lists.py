"""Running lists per person, and the topic of a question in its answer."""

from __future__ import annotations

import pytest
from tests.unit.models.extractive_requests import reflect

from onlooker.models.extractive.lists import things_in

DAYS = (
    "## 2026-02-16\nAna: flew to Lisbon for work; adopted dog named Rex; weather was grey all week long\n"
    "Ben: plays the cello in a small orchestra; never been to Rome",
    "## 2026-03-02\nAna: went hiking in Norway with colleague Rob; the hut was cold and the soup was thin",
    "## 2026-03-20\nAna: spent the weekend in Porto; has taken up pottery; bought kayak from neighbour Olga",
    '## 2026-04-01\nAna: have you read "Dune", Ben?\n'
    'Ben: read the book "Dune" twice; watched the movie "Solaris"',
)


# Enough of other things that not all of it can stay.
STUFF = (
    "oak elm tin zinc lead silk hemp felt clay salt brass copper amber flint chalk cork slate birch wool jade"
)
FILLER = tuple(
    f"## 2026-01-{day:02}\nCarl: sorted {what} into crates; labelled shelf {day} of the {what} archive; "
    f"swept {what} dust from the stairs; mended the {what} ladder with wire"
    for day, what in enumerate(STUFF.split(), 1)
)


@pytest.mark.req(15, 22, 26)
def test_a_reflection_lists_what_a_person_speaks_of() -> None:
    text = reflect(*FILLER, *DAYS, tokens=600)
    lists = [line for line in text.splitlines() if " speaks of: " in line]
    assert lists
    assert "cities: Lisbon, Porto" in text
    assert "pets: dog Rex" in text


@pytest.mark.req(26)
def test_lists_are_carried_through_further_reflections() -> None:
    first = reflect(*FILLER, *DAYS, tokens=600)
    again = reflect(
        first, "## 2026-05-05\nAna: flew to Madrid; lost umbrella there; it rained for days", tokens=590
    )
    assert "Lisbon, Porto, Madrid" in again


def test_nothing_is_listed_where_everything_fits() -> None:
    assert " speaks of: " not in reflect(*FILLER, *DAYS, tokens=5_000)


def test_what_is_denied_or_asked_is_on_no_list() -> None:
    assert not list(things_in("never been to Rome", "never been to Rome"))
    assert not list(things_in("have you seen Paris?", "have you seen Paris?"))


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ("dog called Bo and cat, Miso", [("pets", "dog Bo"), ("pets", "cat Miso")]),
        ("went hiking with sister Carla", [("activities, sports", "hiking"), ("people", "sister Carla")]),
        (
            "bought new running shoes yesterday",
            [("activities, sports", "running"), ("bought", "running shoes")],
        ),
        ("joined a writers group in town", [("attended, joined", "writers group")]),
        ('loved the book "Emma"', [("books", '"Emma"')]),
        ("the turkey was good", []),
    ],
)
def test_things_are_found_with_their_kind(clause: str, found: list[tuple[str, str]]) -> None:
    assert list(things_in(clause, clause)) == found
