"""What becomes of notes and items when messages go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from onlooker.domain.items import Item
from onlooker.domain.messages import Message
from onlooker.domain.notes import Note
from onlooker.policy.history import (
    above,
    exact_values,
    items_to_go,
    remaking,
    tells_more,
    told_by,
)

NOW = datetime(2026, 2, 16, 14, 0, tzinfo=UTC)


def note(ident: str, *sources: str, generation: int = 0, status: str = "active", **more: Any) -> Note:
    values: dict[str, Any] = {"first": 1, "last": 9, "text": f"on {ident}", "status": status} | more
    return Note(id=ident, generation=generation, sources=sources, tokens=5, made_at=NOW, **values)


def by_id(*notes: Note) -> dict[str, Note]:
    return {n.id: n for n in notes}


TREE = by_id(
    note("o1", "m1", "m2", status="superseded"),
    note("o3", "m3", "m4", status="superseded"),
    note("r1", "o1", "o3", generation=1),
    note("o5", "m5", "m6"),
)


def test_a_note_is_told_by_its_messages_through_every_generation() -> None:
    told = [i for i, n in TREE.items() if told_by(n, TREE, {"m1"}, ())]
    assert told == ["o1", "r1"]
    assert [i for i, n in TREE.items() if told_by(n, TREE, {"m9"}, ())] == []


def test_a_reflection_whose_sources_were_purged_is_known_by_its_range() -> None:
    lonely = by_id(note("r1", "gone", generation=1, first=1, last=4))
    assert told_by(lonely["r1"], lonely, {"m2"}, {2})
    assert not told_by(lonely["r1"], lonely, {"m7"}, {7})
    assert remaking(lonely, {"r1"}, (), ("r1",)).remake == (lonely["r1"],)
    assert remaking(lonely, {"r1"}, ()).delete == ("r1",)


def test_what_has_messages_left_is_made_again_from_the_bottom_up() -> None:
    found = remaking(TREE, {"o1", "r1"}, {"m2"})
    assert found.delete == ()
    assert [(n.id, n.sources) for n in found.remake] == [("o1", ("m2",)), ("r1", ("o1", "o3"))]


def test_what_has_none_goes_and_so_does_what_only_it_was_made_into() -> None:
    found = remaking(TREE, {"o1", "r1"}, set())
    assert found.delete == ("o1",)
    assert [(n.id, n.sources) for n in found.remake] == [("r1", ("o3",))]
    found = remaking(TREE, {"o1", "o3", "r1"}, set())
    assert found.delete == ("o1", "o3", "r1")
    assert found.remake == ()


def test_what_nothing_leads_to_any_more_goes() -> None:
    notes = {**TREE, **by_id(note("x", "m1", "m2", status="retired"), note("y", "m1", status="superseded"))}
    found = remaking(notes, {"x", "y"}, {"m1", "m2"})
    assert found.delete == ("x", "y")


def test_everything_made_from_a_note_is_above_it() -> None:
    notes = {**TREE, **by_id(note("r2", "r1", generation=2))}
    assert above(notes, {"o3"}) == {"o3", "r1", "r2"}


def test_a_value_that_only_the_forgotten_said_gives_a_note_away() -> None:
    values = exact_values("The parcel is ZX-90417, at /srv/app/fly.toml")
    assert {"ZX-90417", "/srv/app/fly.toml"} <= values
    own = [Message("user", "Is ZX-90417 here yet?")]
    gossip = note("o1", text="ZX-90417 is on its way")
    assert not tells_more(note("o2", text="the parcel is on its way"), values, ())
    assert tells_more(gossip, values, ())
    assert not tells_more(gossip, values, own)


def item(ident: str, summary: str, **more: Any) -> Item:
    return Item("ana", ident, "profile", summary, NOW, session=more.pop("session", "s"), **more)


def test_items_go_with_what_they_come_from_unless_it_is_still_said() -> None:
    items = [
        item("from the message", "Berit lives in Tromsø", sources=("m1",)),
        item("from a note", "Berit has a boat in Tromsø", sources=("o1",)),
        item("still said", "Ana likes rye bread", sources=("o1",)),
        item("saved", "sister Berit lives in Tromsø"),
        item("of another kind", "Ana works as a baker"),
        item("made of it", "family up north", derived_from=("from a note",)),
        item("elsewhere", "Berit lives in Tromsø", session="other"),
    ]
    going = items_to_go(
        items,
        session="s",
        touched={"o1"},
        gone={"m1"},
        forgotten="My sister Berit lives in Tromsø and has a boat.",
        remaining="Ana likes rye bread, and bakes it",
    )
    assert going == ("from a note", "from the message", "made of it", "saved")
