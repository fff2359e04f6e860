"""Exact values: found, ranked, audited, written down, and not made up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlooker.policy.tokens import estimate
from onlooker.policy.values import (
    audit,
    find_values,
    ledger_values,
    mask,
    rank,
    said_first,
    values_line,
    with_values,
)

RESERVATION = (
    '{"reservation_id": "M05KNL", "user_id": "aarav_garcia_1177", "origin": "ATL", "cabin": "business", '
    '"flights": [{"flight_number": "HAT227", "date": "2024-05-23", "price": 1936}], '
    '"payment_history": [{"payment_id": "gift_card_8887175", "amount": 2787}]}'
)
TERMINAL = """$ pytest tests/unit/test_parser.py -k tuple
E   AssertionError: assert 3 == 4
FAILED tests/unit/test_parser.py::test_single_tuple - AssertionError
1 failed, 11 passed in 2.31s
src/libponyc/ast/parser.c:693:7: error: expected ';' before 'DONE'
fatal: bad object 9852922f
ponyc 0.55.1-800527f7 [release]"""


@pytest.mark.req(12)
@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("see /srv/app/fly.toml for it", "/srv/app/fly.toml", "path"),
        ("edit src/onlooker/policy/text.py.", "src/onlooker/policy/text.py", "path"),
        ("open README.md first", "README.md", "path"),
        ("at ~/notes/todo.txt,", "~/notes/todo.txt", "path"),
        ("see https://example.com/a?b=1.", "https://example.com/a?b=1", "url"),
        ("write to ana.b+c@example.co.uk!", "ana.b+c@example.co.uk", "email"),
        ("order 88-1431 was sent", "88-1431", "id"),
        ("ticket PROJ-12 is open", "PROJ-12", "id"),
        ("flight HAT227 leaves", "HAT227", "id"),
        ("issue #4595", "#4595", "id"),
        ("pay with gift_card_8887175", "gift_card_8887175", "id"),
        ("set DATABASE_URL first", "DATABASE_URL", "id"),
        ("commit 9852922f broke it", "9852922f", "hash"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000", "hash"),
        ("upgrade to v2.3.1 now", "v2.3.1", "version"),
        ("python 3.11.7", "3.11.7", "version"),
        ("it cost €1,240.50 in all", "€1,240.50", "money"),
        ("about 300 USD", "300 USD", "money"),
        ("一共1500元。", "1500元", "money"),
        ("at 14:02 sharp", "14:02", "time"),
        ("at 5pm", "5pm", "time"),
        ("on 2024-05-23 we", "2024-05-23", "date"),
        ("95% of them", "95%", "number"),
        ("12 GB left", "12 GB", "number"),
        ("12345678 rows", "12345678", "number"),
        ("The meter is 7359992910846631, of 2019.", "7359992910846631", "id"),
        ("电表号7359992910846631。", "7359992910846631", "id"),
        ("0.1234567891 of it", "0.1234567891", "number"),
        ("延迟P95≤1.5s。", "1.5s", "number"),
        ('she read "Charlotte\'s Web" twice', '"Charlotte\'s Web"', "quoted"),
        ("读了《三体》", "《三体》", "quoted"),
        ("call get_user_details again", "get_user_details", "code"),
        ("the useState hook", "useState", "code"),
        ("run `make test` now", "make test", "code"),
        ("pass --no-cache too", "--no-cache", "code"),
        ("quarantine (lanebok.example.com), 10:00", "lanebok.example.com", "code"),
        ("calls os.path.join(a, b)", "os.path.join", "code"),
        ("calls time.time() twice", "time.time()", "code"),
    ],
)
def test_a_value_is_found_to_the_letter(text: str, value: str, kind: str) -> None:
    assert (value, kind) in [(found.text, found.kind) for found in find_values(text)]


def test_real_tool_output_gives_its_identifiers() -> None:
    found = {value.text for value in find_values(RESERVATION)}
    assert {"M05KNL", "aarav_garcia_1177", "HAT227", "2024-05-23", "gift_card_8887175", "2787"} <= found
    found = {value.text for value in find_values(TERMINAL)}
    assert {"tests/unit/test_parser.py", "src/libponyc/ast/parser.c", "9852922f", "2.31s"} <= found


def test_plain_talk_holds_no_values() -> None:
    assert find_values("We had a lovely walk, e.g. along the river. Nice!") == []


def test_what_is_reused_comes_first() -> None:
    text = "Looked at a1b2c3d4 once. M05KNL was booked. Then M05KNL was changed, and M05KNL paid. See x/y.py"
    assert rank(text)[0] == "M05KNL"


def test_a_program_full_of_constants_comes_after_its_path() -> None:
    assert rank("TK_TRUE TK_FALSE DATABASE_URL in src/lexer.c")[0] == "src/lexer.c"


def test_line_breaks_that_json_escapes_are_no_part_of_a_value() -> None:
    text = json.dumps({"body": 'see notes\nReadMe first\n\tgetUser"ok"', "path": "C:\\new\\table.csv"})
    found = [value.text for value in find_values(text)]
    assert found[:2] == ["ReadMe", "getUser"]
    assert "nReadMe" not in found
    assert "C:\\\\new\\\\table.csv" in found


def test_single_letters_are_not_listed() -> None:
    assert audit("", "tests/test_cart.py ..F.F and f.x") == ["tests/test_cart.py"]


def test_what_stands_near_an_error_comes_before_what_does_not() -> None:
    far = "x " * 200
    assert rank(f"old/one.py\n{far}\nerror in src/two.py: failed\n{far}\nmore/three.py")[0] == "src/two.py"


@pytest.mark.req(12, 98)
def test_the_audit_names_what_a_note_lost() -> None:
    missing = audit("user: changed reservation M05KNL", RESERVATION)
    assert "M05KNL" not in missing
    assert {"aarav_garcia_1177", "HAT227", "gift_card_8887175"} <= set(missing)


def test_a_part_of_a_longer_value_does_not_count_as_kept() -> None:
    assert "HAT227" in audit("flight HAT2271 and XHAT227", "flight HAT227")


@pytest.mark.req(12, 98)
def test_the_ledger_brings_back_what_the_lines_do_not_say() -> None:
    note = with_values("## 2024-05-15\nuser: wants M05KNL changed", {"## 2024-05-15": RESERVATION}, 60)
    body, ledger = note.rsplit("\n", 1)
    assert body == "## 2024-05-15\nuser: wants M05KNL changed"
    assert ledger.startswith("Values: ")
    assert "HAT227" in ledger
    assert "M05KNL" not in ledger


def test_the_ledger_keeps_to_its_budget() -> None:
    many = " ".join(f"file_{n}.py" for n in range(200))
    line = values_line(rank(many), 50)
    assert line
    assert estimate(line) <= 52
    assert values_line(rank(many), 3) == ""


def test_a_ledger_is_not_written_twice() -> None:
    said = {"": "order 88-1431 and v2.3.1"}
    once = with_values("user: hello", said, 40)
    assert with_values(once, said, 40) == once


def test_a_value_is_listed_under_the_day_on_which_it_was_said() -> None:
    said = {"## 2026-02-14": "order 88-1431", "## 2026-02-15": "see v2.3.1", "## 2026-02-16": "call HAT227"}
    note = with_values("## 2026-02-14\nAna ordered\n## 2026-02-16\nAna called", said, 60)
    assert note.splitlines() == [
        *("## 2026-02-14", "Ana ordered", "Values: 88-1431", "## 2026-02-15", "Values: v2.3.1"),
        *("## 2026-02-16", "Ana called", "Values: HAT227"),
    ]


def test_a_title_with_the_full_stop_of_its_sentence_and_full_agreement_are_not_listed() -> None:
    said = {"": 'I danced to "Finding Freedom." and I 100% agree'}
    assert with_values('Gina danced to "Finding Freedom"', said, 60) == 'Gina danced to "Finding Freedom"'


@pytest.mark.req(98)
def test_ledgers_are_carried_through_a_reflection() -> None:
    assert ledger_values(["a\nValues: 88-1431 · v2.3.1", "b\nValues: HAT227 · 88-1431"]) == [
        "HAT227",
        "88-1431",
        "v2.3.1",
    ]


SECRETS = [
    "sk-proj-abcdefghijklmnop1234567890",
    "sk-ant-api03-" + "a1B2" * 8,
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefghijkl",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "4111 1111 1111 1111",
    "5500-0000-0000-0004",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked(secret: str) -> None:
    assert secret not in mask(f"here it is: {secret} ok")
    assert "[secret]" in mask(f"here it is: {secret} ok")
    assert not any(secret in value or value in secret for value in audit("", f"use {secret} now"))


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password: hunter22x!", "password: [secret]"),
        ("API_KEY=abc123def456", "API_KEY=[secret]"),
        ("Authorization: Bearer abcdef1234567890abcdef", "Authorization: Bearer [secret]"),
        ("postgres://app:s3cr3t@db/prod", "postgres://app:[secret]@db/prod"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----\ndone",
            "[secret]\ndone",
        ),
    ],
)
def test_the_name_of_a_secret_stays(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "I forgot my password again",
        "the password is wrong",
        "api_key = os.environ['KEY']",
        "commit 9852922f1c6a4d0e8b7a6c5d4e3f2a1b0c9d8e7f",
        "order 1234567890123",
        "gift_card_8887175",
        "token budget: 4000",
        "skills: cooking",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


@given(st.text(max_size=300))
def test_a_text_loses_nothing_of_itself(text: str) -> None:
    assert audit(mask(text), text) == []


def test_a_path_in_quotes_is_a_path_and_a_title_is_none() -> None:
    found = find_values('find src -name "command_parser.pony" while reading "Dune" and "The Witcher 3."')
    assert [(value.text, value.kind) for value in found] == [
        ("command_parser.pony", "path"),
        ('"Dune"', "quoted"),
        ('"The Witcher 3"', "quoted"),
    ]


def test_what_people_and_calls_name_comes_before_what_only_a_result_shows() -> None:
    lines = [
        "bash(ls): INSTALL.md, BUILD.md, CHANGELOG.md",
        'bash(find -name "app.py"): (no output)',
        "Ana: It is in src/web.py.",
        "Values: README.md",
    ]
    assert said_first(["INSTALL.md", "app.py", "README.md", "src/web.py"], lines) == [
        "app.py",
        "src/web.py",
        "INSTALL.md",
        "README.md",
    ]
