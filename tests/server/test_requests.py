"""Requests of the chat proxy, of which only what is new is read: what comes out is what `json` reads."""

from __future__ import annotations

import json
from typing import Any, cast

from hypothesis import example, given
from hypothesis import strategies as st

from onlooker.server.requests import Requests
from onlooker.wire import PROTOCOLS, Wire, without_injected

CHAT = PROTOCOLS["chat/completions"]

TEXTS = st.text(max_size=8) | st.sampled_from(["<system-reminder>x</system-reminder>Hi", "\ud800", "é日]}"])
BLOCKS = st.fixed_dictionaries({"text": TEXTS}, optional={"type": st.just("text")})
ITEMS = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system", "tool"]),
        "content": TEXTS | st.lists(BLOCKS, max_size=2),
    },
    optional={"more": st.lists(TEXTS | st.integers() | st.floats(allow_nan=False), max_size=3)},
)
FORMS = st.sampled_from(
    [
        {},
        {"separators": (",", ":"), "ensure_ascii": False},
        {"indent": 1},
        {"indent": "\t", "ensure_ascii": False},
    ]
)


def as_bytes(body: Any, form: dict[str, Any]) -> bytes:
    return json.dumps(body, **form).encode("utf-8", "surrogatepass")


def read_by_json(raw: bytes) -> object:
    try:
        found: object = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return cast("object", found) if isinstance(found, dict) else None


def check(requests: Requests, raw: bytes, wire: Wire = CHAT) -> None:
    asked = requests.read("ana", wire, raw)
    assert (asked.body if asked else None) == read_by_json(raw)
    if asked and (items := wire.items(asked.body)):
        whole = without_injected(items, system_is_injected=wire.system_is_injected)
        assert requests.conversation(asked, items) == whole


@given(
    st.lists(ITEMS, max_size=6),
    st.lists(st.tuples(st.sampled_from(["more", "again", "fewer", "other"]), ITEMS), max_size=6),
    FORMS,
    st.dictionaries(st.sampled_from(["model", "tools", "system"]), TEXTS, max_size=3),
    st.sampled_from(list(PROTOCOLS.values())),
    st.booleans(),
)
def test_a_conversation_that_goes_on_is_read_as_if_each_request_were_the_first(
    items: list[Any],
    turns: list[tuple[str, Any]],
    form: dict[str, Any],
    rest: dict[str, str],
    wire: Wire,
    at_the_end: bool,
) -> None:
    requests = Requests()
    for what, item in turns:
        match what:
            case "more":
                items = [*items, item]
            case "fewer":
                items = items[:-1]
            case "other":
                items = [*items[:-1], item]
            case _:
                pass
        body = {**rest, wire.field: items} if at_the_end else {wire.field: items, **rest}
        check(requests, as_bytes(body, form), wire)


START = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}'
ODD_ENDS = [
    b"]}",
    b" ] } ",
    b",]}",
    b", ]}",
    b',,{"role": "user", "content": "x"}]}',
    b' , {"role": "user", "content": "x"} ]}',
    b'{"role": "user", "content": "x"}]}',
    b'], "messages": [{"role": "user", "content": "other"}]}',
    b'], "messages": 3}',
    b'], "model": "n"}',
    b"], 3: 4}",
    b"]} x",
    b"]",
    b"",
    b', "text", 3, null]}',
    b', {"a": NaN}]}',
    b"]}\xff",
]


@given(st.lists(st.sampled_from(ODD_ENDS), min_size=1, max_size=4), st.binary(max_size=4))
@example(ODD_ENDS, b"")
def test_whatever_follows_a_known_beginning_is_read_as_json_reads_it(ends: list[bytes], noise: bytes) -> None:
    requests = Requests()
    check(requests, START + b"]}")
    for end in [*ends, noise, *(end + noise for end in ends)]:
        if b"NaN" not in end:  # which is not equal to itself
            check(requests, START + end)


def test_what_is_known_is_not_read_again() -> None:
    """Each request reads what is new alone, whoever else asks in between."""
    requests = Requests()
    items = [{"role": "user", "content": f"Parcel {n}"} for n in range(500)]
    before: dict[str, list[Any]] = {}
    for n in range(400, 500):
        for owner in ("ana", "ben"):
            asked = requests.read(owner, CHAT, as_bytes({"model": "m", "messages": items[:n]}, {}))
            assert asked
            found = asked.body["messages"]
            assert found == items[:n]
            known = before.get(owner, [])
            assert all(a is b for a, b in zip(known, found, strict=False))
            before[owner] = found
            requests.conversation(asked, found)
    assert before["ana"][0] is not before["ben"][0]


def test_what_stands_before_a_changed_message_is_not_read_again() -> None:
    """An agent marks its newest messages, and takes the marks off with the next request."""
    requests = Requests()
    items = [{"role": "user", "content": [{"type": "text", "text": f"Parcel {n}"}]} for n in range(60)]
    before = list[Any]()
    for n in range(40, 60, 2):
        sent = [{**item, "marked": True} if i in (n - 1, n - 3) else item for i, item in enumerate(items[:n])]
        asked = requests.read("ana", CHAT, as_bytes({"model": "m", "messages": sent}, {}))
        assert asked
        found = asked.body["messages"]
        assert found == sent
        same = [a is b for a, b in zip(before, found, strict=False)]
        assert same == [i < n - 5 for i in range(len(before))]
        before = found
        assert requests.conversation(asked, found) == without_injected(found)


def test_a_block_that_does_not_say_its_type_is_a_text() -> None:
    block = {"text": "<system-reminder>Use tabs.</system-reminder>Fix the build."}
    requests = Requests()
    asked = requests.read("ana", CHAT, as_bytes({"messages": [{"role": "user", "content": [block]}]}, {}))
    assert asked
    found = requests.conversation(asked, asked.body["messages"])
    assert found.items == [{"role": "user", "content": [{"text": "Fix the build."}]}]
    reminder = {"type": "text", "text": "<system-reminder>Use tabs.</system-reminder>"}
    assert found.opening == [{"role": "user", "content": [reminder]}]
