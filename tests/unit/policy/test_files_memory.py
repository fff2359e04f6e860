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
from onlooker.files.finding import Hand, find, many, replaced_whole
from onlooker.files.names import day_of, digest_of, folder_name, mark_of
from onlooker.files.page import Page, damage, read_page
from onlooker.files.patching import Patched, patched
from onlooker.files.sidecar import Line, Sidecar, Written, read_sidecar
from onlooker.files.taking import Taken, take

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


def new_file(items: Sequence[Item] = THREE) -> Patched:
    return patched(None, {}, (), items, "ana")


def by_hand(change: Callable[[str], str], items: Sequence[Item] = THREE) -> tuple[Page, Hand, Taken]:
    """What comes of a person's change to the file of these items."""
    before = new_file(items)
    page = read_page(change(before.text))
    known = {i.id: i for i in items}
    hand = find(page, before.written, known)
    ids = (f"itm_{NOW:%Y%m%dT%H%M%S%f}_{n:012x}" for n in count(1000))
    return page, hand, take(page, hand, known, "ana", NOW, lambda: next(ids))


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
    hand = find(page, written.written, known)
    # Two items of the same words share a line's text, each with its own mark.
    assert hand.count == 0
    assert written.text.encode().decode() == written.text
    again = patched(page, hand.same, (), items, "ana")
    assert {line.item for line in again.written.lines.values()} == {i.id for i in items}
    assert again.text == written.text


@given(st.text(max_size=300), items_of_any_words)
def test_writing_into_any_text_is_the_same_the_second_time(text: str, items: list[Item]) -> None:
    items = [i for i in items if any(c.isalnum() for c in i.summary)]
    page = read_page(text)
    left = range(len(page.entries))
    once = patched(page, {}, left, items, "ana")
    again = read_page(once.text)
    hand = find(again, once.written, {i.id: i for i in items})
    assert not hand.deleted
    twice = patched(again, hand.same, hand.added, items, "ana")
    assert {line.item for line in twice.written.lines.values()} == {i.id for i in items}


def test_pinned_items_stand_first_and_the_others_by_type() -> None:
    pinned = item("Never call Ana before ten", 4, pinned=True)
    text = new_file((pinned, *THREE)).text
    places = [text.index(w) for w in ("## Pinned", "Never call", "## Profile", "## Behavior", "## Knowledge")]
    assert places == sorted(places)
    assert text.startswith("# About ana\n")


def test_an_owner_is_only_a_name_in_the_heading() -> None:
    text = patched(None, {}, (), (), "eve\n# Forged <!-- 0123456789ab -->").text
    assert text.splitlines()[0].startswith("# About eve Forged")
    assert text.count("\n# ") == 0


# ------------------------------------------------------------------------------------ by hand


@pytest.mark.req(90)
def test_a_changed_line_takes_the_place_of_its_item() -> None:
    _, hand, taken = by_hand(lambda t: t.replace("peanuts", "hazelnuts"))
    (new,) = taken.change.add
    assert (hand.deleted, hand.added) == ([], [])
    assert (new.summary, new.type, new.origin, new.trust) == (
        "Ana is allergic to hazelnuts", "profile", "user", 1.0,
    )  # fmt: skip
    assert taken.change.end == ((THREE[0].id, new.id),)
    assert new.replaces == (THREE[0].id,)


def test_a_line_in_other_words_still_holds_since_when_it_did() -> None:
    old = replace(THREE[0], valid_from=NOW - timedelta(days=30))
    _, _, taken = by_hand(lambda t: t.replace("is allergic", "is very allergic"), (old, *THREE[1:]))
    assert taken.change.add[0].valid_from == old.valid_from
    _, _, taken = by_hand(lambda t: t.replace("peanuts", "hazelnuts"), (old, *THREE[1:]))
    assert taken.change.add[0].valid_from == NOW


@pytest.mark.req(90)
def test_a_deleted_line_forgets_its_item_and_no_other() -> None:
    def delete(text: str) -> str:
        return "\n".join(line for line in text.split("\n") if "peanuts" not in line)

    _, hand, taken = by_hand(delete)
    assert hand.deleted == [THREE[0].id]
    assert not taken.change.add
    assert not taken.change.end


def test_a_line_of_which_only_the_mark_is_left_is_deleted() -> None:
    page, hand, _ = by_hand(lambda t: t.replace("- Ana is allergic to peanuts", "-"))
    assert hand.deleted == [THREE[0].id]
    left = [i for i in THREE if i.id != THREE[0].id]
    assert mark_of(THREE[0].id) not in patched(page, hand.same, (), left, "ana").text


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
    page, _, taken = by_hand(lambda t: t.replace("## Knowledge\n", f"## Skills\n\n{line}\n\n## Knowledge\n"))
    (new,) = taken.change.add
    assert (new.summary, new.type, new.origin) == ("Ana speaks Norwegian", type_, "user")
    written = patched(page, {**taken.stands_for}, (), [*THREE, new], "ana").text
    assert f"Norwegian <!-- {mark_of(new.id)} -->" in written
    assert line.split("\n")[0].split(" ", 1)[0] in written  # a person's own bullet stays


def test_a_persons_own_headings_and_words_stay_where_they_are() -> None:
    own = "\n## Family\n\n> quoted, no fact\n\n- Berit is her sister\n  - lives in Tromsø\n\n```\ncode\n```\n"
    page, hand, taken = by_hand(lambda t: t + own)
    (new,) = taken.change.add
    assert new.summary == "Berit is her sister; lives in Tromsø"
    text = patched(page, {**hand.same, **taken.stands_for}, (), [*THREE, new], "ana").text
    assert text == (new_file().text + own).replace(
        "  - lives in Tromsø", f"  - lives in Tromsø <!-- {mark_of(new.id)} -->"
    )


def test_a_new_word_ends_what_it_contradicts() -> None:
    oslo = item("Ana lives in Oslo", 9, type="profile")
    _, _, taken = by_hand(lambda t: t + "\nAna lives in Bergen\n", (oslo, *THREE))
    (new,) = taken.change.add
    assert taken.change.end == ((oslo.id, new.id),)


def test_a_line_typed_anew_without_its_mark_is_a_change() -> None:
    mark = f" <!-- {mark_of(THREE[1].id)} -->"
    _, hand, taken = by_hand(lambda t: t.replace(f"short answers{mark}", "long answers"))
    assert hand.deleted == []
    assert taken.change.end == ((THREE[1].id, taken.change.add[0].id),)


def test_marks_that_were_all_stripped_are_put_back() -> None:
    def strip(text: str) -> str:
        return "\n".join(
            line.split(" <!--")[0] if line.startswith("- ") else line for line in text.split("\n")
        )

    page, hand, taken = by_hand(strip)
    assert hand.count == 0
    assert not taken.change.add
    assert patched(page, hand.same, (), THREE, "ana").text == new_file().text


def test_a_copied_line_is_said_once() -> None:
    page, hand, taken = by_hand(lambda t: t + "\n" + t.split("\n")[-2] + "\n")
    assert not taken.change.add
    assert not hand.deleted
    assert patched(page, hand.same, (), THREE, "ana").text.count("deploy.sh") == 1


def test_a_copy_that_was_changed_is_new_and_the_first_stays() -> None:
    _, hand, taken = by_hand(
        lambda t: t + "\n" + t.split("\n")[-2].replace("deploy.sh", "ship.sh for tests") + "\n"
    )
    assert len(taken.change.add) == 1
    assert not taken.change.end
    assert not hand.deleted


def test_moving_a_line_to_the_pinned_ones_pins_it() -> None:
    def move(text: str) -> str:
        line = next(ln for ln in text.split("\n") if "peanuts" in ln)
        return text.replace(line, "").replace("## Profile", f"## Pinned\n\n{line}\n\n## Profile")

    _, hand, taken = by_hand(move)
    assert hand.pins == {THREE[0].id: True}
    assert not taken.change.add


def test_moving_a_line_to_another_type_makes_it_one_of_that_type() -> None:
    def move(text: str) -> str:
        line = next(ln for ln in text.split("\n") if "deploy.sh" in ln)
        return text.replace(line, "") + f"\n## Tools\n\n{line}\n"

    _, _, taken = by_hand(move)
    assert [(i.type, i.replaces) for i in taken.change.add] == [("tool", (THREE[2].id,))]


def test_secrets_are_masked_before_they_are_kept() -> None:
    page, _, taken = by_hand(lambda t: t + f"\n- The key is {SECRET}\n")
    assert "sk-ant" not in taken.change.add[0].summary
    text = patched(page, taken.stands_for, (), list(taken.change.add), "ana").text
    assert "sk-ant" not in text


def test_what_is_too_long_to_be_a_fact_stays_as_it_is() -> None:
    story = "Ana told a story. " * 40
    page, _, taken = by_hand(lambda t: t + f"\n{story}\n")
    assert not taken.change.add
    assert len(taken.refused) == 1
    assert story.strip() in patched(page, taken.stands_for, taken.refused, THREE, "ana").text


def test_line_ends_of_another_system_stay() -> None:
    page, hand, _ = by_hand(lambda t: t.replace("\n", "\r\n"))
    assert hand.count == 0
    text = patched(page, hand.same, (), THREE, "ana").text
    assert text == new_file().text.replace("\n", "\r\n")


# ------------------------------------------------------------------------------------ what changes meanwhile


def test_an_item_that_gave_way_to_another_is_followed_in_place() -> None:
    page = read_page(new_file().text)
    heir = item("Ana is allergic to all nuts", 7, type="profile", replaces=(THREE[0].id,))
    places = {n: i.id for n, i in enumerate((heir, *THREE[1:]))}
    text = patched(page, places, (), [heir, *THREE[1:]], "ana").text
    assert "peanuts" not in text
    assert text.index("all nuts") < text.index("## Behavior")


def test_what_no_longer_holds_leaves_the_file_with_its_heading() -> None:
    written = new_file()
    page = read_page(written.text)
    hand = find(page, written.written, {i.id: i for i in THREE})
    text = patched(page, hand.same, (), THREE[:2], "ana").text
    assert "deploy.sh" not in text
    assert "## Knowledge" not in text
    assert "## Behavior" in text


def test_a_change_to_what_was_forgotten_meanwhile_is_a_new_word() -> None:
    written = new_file()
    page = read_page(written.text.replace("peanuts", "hazelnuts"))
    left = {i.id: i for i in THREE[1:]}
    hand = find(page, written.written, left)
    taken = take(page, hand, left, "ana", NOW, lambda: "itm_new")
    assert [i.summary for i in taken.change.add] == ["Ana is allergic to hazelnuts"]
    assert not taken.change.end


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
    assert replaced_whole(read_page("# Shopping\n- milk\n- bread\n"), written.written, known)
    assert not replaced_whole(read_page(written.text.replace("peanuts", "nuts")), written.written, known)


def test_a_deletion_of_many_lines_is_told_from_one_of_few() -> None:
    items = [item(f"Fact number {n} of many", n) for n in range(10)]
    _, hand, _ = by_hand(lambda t: "\n".join(t.split("\n")[:12]), items)
    assert len(hand.deleted) >= 5
    assert many(hand, new_file(items).written)
    _, hand, _ = by_hand(lambda t: t.replace(t.split("\n")[-2], ""), items)
    assert len(hand.deleted) == 1
    assert not many(hand, new_file(items).written)


# ------------------------------------------------------------------------------------ names and what is known


def test_no_owner_leaves_the_folder_or_shares_one() -> None:
    owners = [
        "../../etc",
        "a/b",
        "a\\b",
        "..",
        ".",
        "",
        "Ana",
        "ana",
        "ana ",
        "a\0b",
        "\ud800",
        "x" * 500,
        "con",
    ]
    names = [folder_name(owner) for owner in owners]
    assert len(set(names)) == len(owners)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") and len(name) < 90 for name in names)


def test_other_files_in_the_folder_are_no_days() -> None:
    assert day_of("2026-02-16.md")
    assert day_of("2026-02-16-2.md")
    assert not any(map(day_of, ("2026-02-30.md", "notes.md", "2026-02-16.md.part", "../2026-02-16.md")))


def test_a_sidecar_reads_back_as_it_was() -> None:
    version = Written("d", {"0123456789ab": Line("itm_1", "profile", "e")})
    one = Sidecar("ana", "s", version, Written(), NOW)
    assert read_sidecar(one.to_json()) == one
    assert all(read_sidecar(text) is None for text in ("", "{", "[]", "{}", '{"owner": 1}', "null"))


def test_after_a_crash_in_the_middle_only_what_both_versions_have_is_missed() -> None:
    line = Line("itm_1", "", "")
    old, new = Written("old", {"a": line, "b": line}), Written("new", {"b": line, "c": line})
    side = Sidecar("ana", "s", new, old)
    assert side.base("old") is old
    assert side.base("new") is new
    assert set(side.base("changed").lines) == {"b"}
    assert side.base(digest_of("x")).digest == ""
