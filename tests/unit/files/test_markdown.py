"""MEMORY.md as text: what we write is read back as what it is, and what a person does to it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onlooker.domain.items import ITEM_TYPES, Item
from onlooker.files.markdown import (
    Edits,
    Page,
    Rendered,
    Resolution,
    damage,
    find_edits,
    is_mass_deletion,
    is_other_file,
    mark_of,
    read_page,
    render,
    resolve,
)

NOW = datetime(2026, 2, 16, 12, tzinfo=UTC)
SECRET = "sk-ant-" + "a1B2c3D4" * 5


def item(summary: str, number: int = 0, **more: object) -> Item:
    ident = f"itm_20260216T120000000000_{number:012x}"
    base = Item(owner="ana", id=ident, type="knowledge", summary=summary, made_at=NOW, valid_from=NOW)
    return replace(base, **more)


THREE = (
    item("Ana is allergic to peanuts", 1, type="profile", tags=("health",)),
    item("Ana prefers short answers", 2, type="behavior"),
    item("The deploy script is deploy.sh", 3),
)


def new_file(items: Sequence[Item] = THREE) -> Rendered:
    return render(None, {}, (), items, "ana")


def edit(change: Callable[[str], str], items: Sequence[Item] = THREE) -> tuple[Page, Edits, Resolution]:
    """What comes of a person's change to the file of these items."""
    before = new_file(items)
    page = read_page(change(before.text))
    known = {i.id: i for i in items}
    edits = find_edits(page, before.base, known)
    ids = (f"itm_{NOW:%Y%m%dT%H%M%S%f}_{n:012x}" for n in count(1000))
    return page, edits, resolve(page, edits, known, "ana", NOW, lambda: next(ids))


# ------------------------------------------------------------------------------------ our own file

words = st.text(min_size=1, max_size=80)
items_of_any_words = st.lists(
    st.tuples(words, st.sampled_from(ITEM_TYPES), st.booleans()), max_size=8, unique_by=lambda t: t[0]
).map(lambda found: [item(w, n, type=t, pinned=p) for n, (w, t, p) in enumerate(found)])


@pytest.mark.req(90)
@given(items_of_any_words)
@example([item("- [ ] a # b <!-- 0123456789ab --> c"), item("```", 1), item("a\nb\u2028c\x00d", 2)])
@example([item("said --> that", 1), item("A | B ; C", 2), item("1. first", 3), item("\ud800 alone", 4)])
def test_a_file_that_nobody_touched_says_nothing_new(items: list[Item]) -> None:
    items = [i for i in items if any(c.isalnum() for c in i.summary)]
    written = new_file(items)
    page = read_page(written.text)
    known = {i.id: i for i in items}
    edits = find_edits(page, written.base, known)
    # Two items of the same words share a line's text, each with its own mark.
    assert edits.count == 0
    assert written.text.encode().decode() == written.text
    again = render(page, edits.same, (), items, "ana")
    assert {line.item for line in again.base.lines.values()} == {i.id for i in items}
    assert again.text == written.text


@given(st.text(max_size=300), items_of_any_words)
def test_writing_into_any_text_is_the_same_the_second_time(text: str, items: list[Item]) -> None:
    items = [i for i in items if any(c.isalnum() for c in i.summary)]
    page = read_page(text)
    left = range(len(page.entries))
    once = render(page, {}, left, items, "ana")
    again = read_page(once.text)
    edits = find_edits(again, once.base, {i.id: i for i in items})
    assert not edits.deleted
    twice = render(again, edits.same, edits.added, items, "ana")
    assert {line.item for line in twice.base.lines.values()} == {i.id for i in items}


def test_pinned_items_stand_first_and_the_others_by_type() -> None:
    pinned = item("Never call Ana before ten", 4, pinned=True)
    text = new_file((pinned, *THREE)).text
    places = [text.index(w) for w in ("## Pinned", "Never call", "## Profile", "## Behavior", "## Knowledge")]
    assert places == sorted(places)
    assert text.startswith("# About ana\n")


def test_an_owner_is_only_a_name_in_the_heading() -> None:
    text = render(None, {}, (), (), "eve\n# Forged <!-- 0123456789ab -->").text
    assert text.splitlines()[0].startswith("# About eve Forged")
    assert text.count("\n# ") == 0


# ------------------------------------------------------------------------------------ by hand


@pytest.mark.req(90)
def test_a_changed_line_takes_the_place_of_its_item() -> None:
    _, edits, resolution = edit(lambda t: t.replace("peanuts", "hazelnuts"))
    (new,) = resolution.change.add
    assert (edits.deleted, edits.added) == ([], [])
    assert (new.summary, new.type, new.origin, new.trust) == (
        "Ana is allergic to hazelnuts", "profile", "user", 1.0,
    )  # fmt: skip
    assert resolution.change.end == ((THREE[0].id, new.id),)
    assert new.replaces == (THREE[0].id,)


def test_a_line_in_other_words_still_holds_since_when_it_did() -> None:
    old = replace(THREE[0], valid_from=NOW - timedelta(days=30))
    _, _, resolution = edit(lambda t: t.replace("is allergic", "is very allergic"), (old, *THREE[1:]))
    assert resolution.change.add[0].valid_from == old.valid_from
    _, _, resolution = edit(lambda t: t.replace("peanuts", "hazelnuts"), (old, *THREE[1:]))
    assert resolution.change.add[0].valid_from == NOW


@pytest.mark.req(90)
def test_a_deleted_line_forgets_its_item_and_no_other() -> None:
    def delete(text: str) -> str:
        return "\n".join(line for line in text.split("\n") if "peanuts" not in line)

    _, edits, resolution = edit(delete)
    assert edits.deleted == [THREE[0].id]
    assert not resolution.change.add
    assert not resolution.change.end


def test_a_line_of_which_only_the_mark_is_left_is_deleted() -> None:
    page, edits, _ = edit(lambda t: t.replace("- Ana is allergic to peanuts", "-"))
    assert edits.deleted == [THREE[0].id]
    left = [i for i in THREE if i.id != THREE[0].id]
    assert mark_of(THREE[0].id) not in render(page, edits.same, (), left, "ana").text


@pytest.mark.parametrize(
    ("line", "type_"),
    [
        ("- Ana speaks Norwegian", "skill"),
        ("* Ana speaks Norwegian", "skill"),
        ("Ana speaks\nNorwegian", "skill"),
    ],
)
@pytest.mark.req(90)
def test_a_new_line_becomes_an_item_of_the_users(line: str, type_: str) -> None:
    page, _, resolution = edit(
        lambda t: t.replace("## Knowledge\n", f"## Skills\n\n{line}\n\n## Knowledge\n")
    )
    (new,) = resolution.change.add
    assert (new.summary, new.type, new.origin) == ("Ana speaks Norwegian", type_, "user")
    written = render(page, {**resolution.stated}, (), [*THREE, new], "ana").text
    assert f"Norwegian <!-- {mark_of(new.id)} -->" in written
    assert line.split("\n")[0].split(" ", 1)[0] in written  # a person's own bullet stays


def test_a_persons_own_headings_and_words_stay_where_they_are() -> None:
    own = "\n## Family\n\n> quoted, no fact\n\n- Berit is her sister\n  - lives in Tromsø\n\n```\ncode\n```\n"
    page, edits, resolution = edit(lambda t: t + own)
    (new,) = resolution.change.add
    assert new.summary == "Berit is her sister; lives in Tromsø"
    text = render(page, {**edits.same, **resolution.stated}, (), [*THREE, new], "ana").text
    assert text == (new_file().text + own).replace(
        "  - lives in Tromsø", f"  - lives in Tromsø <!-- {mark_of(new.id)} -->"
    )


def test_a_new_word_ends_what_it_contradicts() -> None:
    oslo = item("Ana lives in Oslo", 9, type="profile")
    _, _, resolution = edit(lambda t: t + "\nAna lives in Bergen\n", (oslo, *THREE))
    (new,) = resolution.change.add
    assert resolution.change.end == ((oslo.id, new.id),)


def test_a_line_typed_anew_without_its_mark_is_a_change() -> None:
    mark = f" <!-- {mark_of(THREE[1].id)} -->"
    _, edits, resolution = edit(lambda t: t.replace(f"short answers{mark}", "long answers"))
    assert edits.deleted == []
    assert resolution.change.end == ((THREE[1].id, resolution.change.add[0].id),)


def test_marks_that_were_all_stripped_are_put_back() -> None:
    def strip(text: str) -> str:
        return "\n".join(
            line.split(" <!--")[0] if line.startswith("- ") else line for line in text.split("\n")
        )

    page, edits, resolution = edit(strip)
    assert edits.count == 0
    assert not resolution.change.add
    assert render(page, edits.same, (), THREE, "ana").text == new_file().text


def test_a_copied_line_is_said_once() -> None:
    page, edits, resolution = edit(lambda t: t + "\n" + t.split("\n")[-2] + "\n")
    assert not resolution.change.add
    assert not edits.deleted
    assert render(page, edits.same, (), THREE, "ana").text.count("deploy.sh") == 1


def test_a_copy_that_was_changed_is_new_and_the_first_stays() -> None:
    _, edits, resolution = edit(
        lambda t: t + "\n" + t.split("\n")[-2].replace("deploy.sh", "ship.sh for tests") + "\n"
    )
    assert len(resolution.change.add) == 1
    assert not resolution.change.end
    assert not edits.deleted


def test_moving_a_line_to_the_pinned_ones_pins_it() -> None:
    def move(text: str) -> str:
        line = next(ln for ln in text.split("\n") if "peanuts" in ln)
        return text.replace(line, "").replace("## Profile", f"## Pinned\n\n{line}\n\n## Profile")

    _, edits, resolution = edit(move)
    assert edits.pins == {THREE[0].id: True}
    assert not resolution.change.add


def test_moving_a_line_to_another_type_makes_it_one_of_that_type() -> None:
    def move(text: str) -> str:
        line = next(ln for ln in text.split("\n") if "deploy.sh" in ln)
        return text.replace(line, "") + f"\n## Tools\n\n{line}\n"

    _, _, resolution = edit(move)
    assert [(i.type, i.replaces) for i in resolution.change.add] == [("tool", (THREE[2].id,))]


def test_secrets_are_masked_before_they_are_kept() -> None:
    page, _, resolution = edit(lambda t: t + f"\n- The key is {SECRET}\n")
    assert "sk-ant" not in resolution.change.add[0].summary
    text = render(page, resolution.stated, (), list(resolution.change.add), "ana").text
    assert "sk-ant" not in text


def test_what_is_too_long_to_be_a_fact_stays_as_it_is() -> None:
    story = "Ana told a story. " * 40
    page, _, resolution = edit(lambda t: t + f"\n{story}\n")
    assert not resolution.change.add
    assert len(resolution.too_long) == 1
    assert story.strip() in render(page, resolution.stated, resolution.too_long, THREE, "ana").text


def test_line_ends_of_another_system_stay() -> None:
    page, edits, _ = edit(lambda t: t.replace("\n", "\r\n"))
    assert edits.count == 0
    text = render(page, edits.same, (), THREE, "ana").text
    assert text == new_file().text.replace("\n", "\r\n")


# ------------------------------------------------------------------------------------ what changes meanwhile


def test_an_item_that_gave_way_to_another_is_followed_in_place() -> None:
    page = read_page(new_file().text)
    heir = item("Ana is allergic to all nuts", 7, type="profile", replaces=(THREE[0].id,))
    places = {n: i.id for n, i in enumerate((heir, *THREE[1:]))}
    text = render(page, places, (), [heir, *THREE[1:]], "ana").text
    assert "peanuts" not in text
    assert text.index("all nuts") < text.index("## Behavior")


def test_what_no_longer_holds_leaves_the_file_with_its_heading() -> None:
    written = new_file()
    page = read_page(written.text)
    edits = find_edits(page, written.base, {i.id: i for i in THREE})
    text = render(page, edits.same, (), THREE[:2], "ana").text
    assert "deploy.sh" not in text
    assert "## Knowledge" not in text
    assert "## Behavior" in text


def test_a_change_to_what_was_forgotten_meanwhile_is_a_new_word() -> None:
    written = new_file()
    page = read_page(written.text.replace("peanuts", "hazelnuts"))
    left = {i.id: i for i in THREE[1:]}
    edits = find_edits(page, written.base, left)
    resolution = resolve(page, edits, left, "ana", NOW, lambda: "itm_new")
    assert [i.summary for i in resolution.change.add] == ["Ana is allergic to hazelnuts"]
    assert not resolution.change.end


# ------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n \n",
        b"\xff\xfe# About",
        b"# About ana\n\0\0",
        b"<<<<<<< ours\n- a\n=======\n",
        b"x" * 5_000_000,
    ],
)
def test_a_file_that_cannot_be_meant_is_told(data: bytes) -> None:
    assert damage(data)


def test_a_file_without_a_line_of_ours_is_another_file() -> None:
    written = new_file()
    known = {i.id: i for i in THREE}
    assert is_other_file(read_page("# Shopping\n- milk\n- bread\n"), written.base, known)
    assert not is_other_file(read_page(written.text.replace("peanuts", "nuts")), written.base, known)


def test_a_deletion_of_many_lines_is_told_from_one_of_few() -> None:
    items = [item(f"Fact number {n} of many", n) for n in range(10)]
    _, edits, _ = edit(lambda t: "\n".join(t.split("\n")[:12]), items)
    assert len(edits.deleted) >= 5
    assert is_mass_deletion(edits, new_file(items).base)
    _, edits, _ = edit(lambda t: t.replace(t.split("\n")[-2], ""), items)
    assert len(edits.deleted) == 1
    assert not is_mass_deletion(edits, new_file(items).base)
