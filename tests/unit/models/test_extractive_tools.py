"""Tool traffic in the built-in observer: calls, their results, and the same call made again."""

from __future__ import annotations

import json
import re

import pytest
from tests.unit.models.extractive_requests import START, observe, role

from onlooker.domain.messages import Message, ToolCall
from onlooker.models.extractive.tool_results import records_of_result
from onlooker.policy.tokens import estimate


def exchange(
    name: str, arguments: dict[str, object], result: object, number: int = 1
) -> tuple[Message, Message]:
    """A call and its answer."""
    call = ToolCall(f"c{number}", name, json.dumps(arguments))
    text = result if isinstance(result, str) else json.dumps(result)
    return (
        Message("assistant", "", at=START, calls=(call,)),
        Message("tool", text, at=START, answers=call.id, name=name),
    )


def noted(*exchanges: tuple[Message, Message], tokens: int = 200) -> str:
    return observe(*(message for pair in exchanges for message in pair), tokens=tokens)


def pytest_run(failed: int, passed: int) -> str:
    trouble = "".join(
        f"FAILED tests/test_cart.py::test_total_{n} - AssertionError: assert {n} == 12\n"
        for n in range(failed)
    )
    counts = f"{failed} failed, {passed} passed" if failed else f"{passed} passed"
    rule = "=" * 20
    return (
        f"{rule} test session starts {rule}\nplatform linux -- Python 3.12.1, pytest-8.2.0\n"
        f"collected {failed + passed} items\n\ntests/test_cart.py ..F.F\n\n"
        f"{trouble}{rule} {counts} in 0.41s {rule}"
    )


# ------------------------------------------------------------------------------------ calls made again


@pytest.mark.req(16)
def test_test_runs_become_one_line_from_the_first_to_the_last_outcome() -> None:
    runs = [
        exchange("bash", {"command": command}, pytest_run(failed, passed), n)
        for n, (command, failed, passed) in enumerate(
            [
                ("pytest -q tests/test_cart.py", 2, 10),
                ("pytest tests/test_cart.py", 1, 11),
                ("pytest -x tests/test_cart.py 2>&1 | tail -20", 1, 11),
                ("pytest tests/test_cart.py -q", 0, 12),
            ]
        )
    ]
    text = noted(*runs)
    assert "ran 4×, 2 failed, 10 passed in 0.41s → 1 failed, 11 passed in 0.41s → 12 passed in 0.41s" in text
    assert text.count("ran ") == 1
    assert "tests/test_cart.py::test_total_1" in text  # what went wrong on the way


def test_the_same_answer_to_the_same_call_is_said_once_with_a_count() -> None:
    source = "     1\timport os\n     2\t\n     3\tdef total(cart):\n     4\t    return sum(cart)\n"
    text = noted(*(exchange("read_file", {"path": "shop/cart.py"}, source, n) for n in range(3)))
    assert text.count("read_file(shop/cart.py)") == 1
    assert "read_file(shop/cart.py): 3×, lines 1–4, defines total" in text


def test_a_retry_says_how_it_ended() -> None:
    text = noted(
        exchange("http_get", {"url": "https://api.shop.example/orders"}, "Error: connection timed out", 1),
        exchange("http_get", {"url": "https://api.shop.example/orders"}, "Error: 503 Service Unavailable", 2),
        exchange("http_get", {"url": "https://api.shop.example/orders"}, {"orders": ["A-1001", "A-1002"]}, 3),
    )
    assert "3×" in text
    assert "connection timed out" in text
    assert "A-1001 A-1002" in text


def test_an_object_asked_for_again_says_what_changed() -> None:
    text = noted(
        exchange(
            "get_order", {"order_id": "A-1001"}, '{"status": "pending", "total": 45.50, "items": [7]}', 1
        ),
        exchange(
            "get_order", {"order_id": "A-1001"}, '{"status": "shipped", "total": 45.50, "items": [7]}', 2
        ),
    )
    assert "get_order(A-1001): 2×, status pending → shipped" in text
    assert "45.50" in text  # to the letter


def test_a_call_that_answers_something_else_each_time_is_no_repetition() -> None:
    text = noted(
        exchange("next_message", {}, {"from": "Ines", "subject": "Invoice 2201"}, 1),
        exchange("next_message", {}, {"sender": "Omar", "about": "Room B-14"}, 2),
    )
    for value in ("Ines", "2201", "Omar", "B-14"):
        assert value in text
    assert "×" not in text


def test_the_same_command_elsewhere_is_another_call() -> None:
    text = noted(
        exchange("bash", {"command": "cd api && make"}, "make: *** [build] Error 2", 1),
        exchange("bash", {"command": "cd web && make"}, "web built", 2),
    )
    assert "×" not in text
    assert "cd api && make" in text


# ------------------------------------------------------------------------------------ what calls are called


@pytest.mark.parametrize(
    ("name", "arguments", "label"),
    [
        ("get_order", {"order_id": "KLMNOP"}, "get_order(KLMNOP): "),
        ("bash", {"command": "pytest -q tests/a.py::test_b"}, "bash(pytest -q tests/a.py::test_b): "),
        (
            "find_trains",
            {"from": "OSL", "to": "BGO", "day": "2026-05-01"},
            "find_trains(OSL, BGO, 2026-05-01): ",
        ),
        ("edit", {"new_text": "a = 1\nb = 2\nc = 3", "path": "src/app.py"}, "edit(src/app.py): "),
        (
            "view",
            {"path": "/srv/projects/warehouse/backend/services/inventory/adapters/postgres_repository.py"},
            "view(…/adapters/postgres_repository.py): ",
        ),
    ],
)
def test_a_call_is_named_by_what_it_is_about(name: str, arguments: dict[str, object], label: str) -> None:
    assert label in noted(exchange(name, arguments, "ready: 3 rows written"))


# ------------------------------------------------------------------------------------ objects


@pytest.mark.req(12)
def test_each_of_many_objects_keeps_its_name_beside_its_figures() -> None:
    rooms = [
        {
            "room_number": f"B-{n}14",
            "floor": f"floor {n} of the east wing",
            "equipment": f"projector and {n} whiteboards",
            "prices": {"hour": 20 + n, "day": 140 + n},
        }
        for n in range(1, 5)
    ]
    text = noted(exchange("find_rooms", {"city": "Oslo"}, rooms), tokens=300)
    for n in range(1, 5):
        assert re.search(rf"B-{n}14 [^;]*prices hour {20 + n} day {140 + n}", text), text


def test_what_the_call_says_is_not_said_again() -> None:
    orders = [
        exchange("get_order", {"order_id": f"A-100{n}"}, {"order_id": f"A-100{n}", "customer": f"ana_{n}"}, n)
        for n in range(3)
    ]
    text = noted(*orders)
    assert text.count("order_id") == 1  # the first time: what the number is
    assert text.count("A-1002") == 1


def test_a_date_keeps_what_it_is_the_date_of() -> None:
    people = [{"name": "Ines", "born": "1990-04-05"}, {"name": "Omar", "born": "1982-10-19"}]
    text = noted(exchange("list_people", {}, people))
    assert "born 1990-04-05" in text
    assert "born 1982-10-19" in text


@pytest.mark.parametrize(
    "result",
    [
        '{"id": "A-1001", "customer": "ana_42", "lines": [{"sku": "XK-77", "n": 3}, {"sku": "XK-',  # cut off
        "{'id': 'A-1001', 'customer': 'ana_42', 'lines': [{'sku': 'XK-77', 'count': 3}], 'paid': True}",
        '{"id": "A-1001", "sku": "XK-77"}\n{"id": "A-1002", "customer": "ana_42"}\n',
    ],
)
def test_what_is_almost_json_is_read_too(result: str) -> None:
    text = noted(exchange("get_order", {"n": 1}, result))
    for value in ("A-1001", "ana_42", "XK-77"):
        assert value in text
    assert not set("{}'\"") & set(text)


# ------------------------------------------------------------------------------------ output


def test_a_file_that_was_shown_is_noted_by_what_it_defines() -> None:
    body = "".join(f"    {n}\t    value_{n} = compute({n});\n" for n in range(101, 160))
    shown = f"Here's the result of `cat -n` on shop/cart.py:\n   100\tdef total(cart):\n{body}"
    text = noted(exchange("view", {"path": "shop/cart.py"}, shown), tokens=60)
    assert "view(shop/cart.py): lines 100–159, defines total" in text
    assert "compute(" not in text.split("Values:")[0]


def test_a_folder_is_noted_by_its_names() -> None:
    listing = "total 24\n" + "\n".join(
        f"-rw-r--r-- 1 ana ana {size} May  3 10:0{n} {name}"
        for n, (name, size) in enumerate([("Makefile", 812), ("setup.cfg", 455), ("shop", 4096)])
    )
    text = noted(exchange("bash", {"command": "ls -l"}, listing))
    assert "bash(ls -l): Makefile, setup.cfg, shop" in text
    assert "total 24" not in text


def test_a_change_is_noted_by_its_files() -> None:
    diff = (
        "diff --git a/shop/cart.py b/shop/cart.py\nindex 98529..2c37d 100644\n--- a/shop/cart.py\n"
        "+++ b/shop/cart.py\n@@ -1,2 +1,2 @@\n-    return 0\n+    return sum(cart)\n"
    )
    assert "bash(git diff): changes shop/cart.py" in noted(exchange("bash", {"command": "git diff"}, diff))


@pytest.mark.req(5)
def test_a_screen_is_read_as_it_looks() -> None:
    output = (
        "\x1b]0;build\x07Downloading  10%\rDownloading  55%\rDownloading 100%\n"
        "\x1b[1;31merror\x1b[0m: cannot find crate `serde_json`\n"
    )
    text = noted(exchange("bash", {"command": "cargo build"}, output))
    assert "error: cannot find crate `serde_json`" in text
    for debris in ("[1;31m", "[0m", "10%", "55%", "]0;"):
        assert debris not in text


def test_a_web_page_is_read_without_its_markup() -> None:
    page = (
        "<!DOCTYPE html><html><head><title>x</title><style>p {color: red}</style></head><body>"
        "<div class='a'><p>Opening hours: 9:30 to 17:00 &amp; closed on Sundays</p></div>"
        "<script>var a=1;</script>"
    )
    text = noted(exchange("fetch", {"url": "https://museum.example"}, page))
    assert "Opening hours: 9:30 to 17:00 & closed on Sundays" in text
    for debris in ("<", "color", "var a"):
        assert debris not in text


def test_a_command_that_went_well_without_a_word_is_done() -> None:
    text = noted(exchange("bash", {"command": "mkdir out"}, "\n[The command completed with exit code 0.]"))
    assert "bash(mkdir out): " in text
    failed = noted(exchange("bash", {"command": "mkdir out"}, "exited with code 2\nsee the log at build.log"))
    assert "exited with code 2" in failed


def test_lines_that_differ_in_a_number_alone_are_counted() -> None:
    log = "\n".join(f"worker {n} ready after {n * 3} ms" for n in range(40)) + "\nlistening on port 8443"
    text = noted(exchange("bash", {"command": "serve"}, log))
    assert "(40×)" in text
    assert "listening on port 8443" in text


def test_what_was_not_counted_to_the_end_has_no_count() -> None:
    log = "\n".join(f"worker {n} ready after {n * 3} ms" for n in range(4000))
    text = noted(exchange("bash", {"command": "serve"}, log))
    assert "worker 3999 ready" in text
    assert "×" not in text


def test_line_breaks_in_arguments_are_no_letters() -> None:
    content = "Dear Ines,\nThe invoice is attached.\nPlease pay by 2026-05-01.\nThanks\nOmar"
    text = noted(exchange("send_mail", {"to": "ines@shop.example", "body": content}, {"sent": True}))
    assert "ines@shop.example" in text
    assert not re.search(r"\bn(?:The|Please|Thanks|Omar)\b|\\n", text)


@pytest.mark.parametrize("number", ["", "c1"])
def test_a_second_answer_to_a_call_is_told_too(number: str) -> None:
    call = ToolCall(number, "get_order", '{"order_id": "A-1001"}')
    text = observe(
        role("user", "Who are the two customers of that order that we talked about, and when did they pay?"),
        Message("assistant", "", at=START, calls=(call,)),
        Message("tool", '{"customer": "ana_42"}', at=START, answers=number, name="get_order"),
        Message("tool", '{"customer": "omar_17"}', at=START, answers=number, name="get_order"),
    )
    assert "ana_42" in text
    assert "omar_17" in text


# ------------------------------------------------------------------------------------ the whole


@pytest.mark.req(5, 11)
def test_a_coding_session_in_short() -> None:
    log = "\n".join(f"INFO request {n} served" for n in range(400))
    text = observe(
        role("user", "Checkout fails for carts with coupons. Please fix it."),
        role("assistant", "The total ignores coupons, so I decided to apply them in `total`."),
        *exchange("bash", {"command": "grep -rn coupon shop"}, "shop/cart.py:41:    # coupon is ignored", 1),
        *exchange("bash", {"command": "pytest tests"}, pytest_run(1, 11), 2),
        *exchange(
            "edit",
            {"path": "shop/cart.py", "old": "return t", "new": "return t - c"},
            "1 replacement made",
            3,
        ),
        *exchange("bash", {"command": "pytest tests"}, pytest_run(0, 12), 4),
        *exchange("bash", {"command": "tail -400 app.log"}, f"{log}\nERROR coupon SPRING-26 expired", 5),
        tokens=220,
    )
    for told in (
        "coupon",
        "shop/cart.py:41",
        "ran 2×",
        "12 passed",
        "edit(shop/cart.py",
        "SPRING-26 expired",
    ):
        assert told in text, text
    assert estimate(text) <= 220
    assert "request 17" not in text


@pytest.mark.req(12)
def test_ids_come_before_free_text_where_room_is_short() -> None:
    profile = {
        "user_id": "ana_berg_204",
        "motto": "slow mornings and long walks by the water with good company",
        "bio": "likes gardening and old radios and says so at every opportunity there is",
        "payment_methods": {"card_77120": {"brand": "visa"}, "voucher_5519": {"amount": 40}},
    }
    text = noted(exchange("get_user", {"user_id": "ana_berg_204"}, profile), tokens=45)
    assert "card_77120" in text
    assert "voucher_5519" in text
    assert "gardening" not in text


# ------------------------------------------------------------------------------------ no half of a message


def test_a_wrapped_message_of_a_program_is_one_line() -> None:
    """ "be sure it has been" and "installed." say the opposite of each other."""
    output = (
        "CMake Error at CMakeLists.txt:27 (find_package):\n"
        '  Could not find a package configuration file provided by "Frob" with any of\n'
        "  the following names:\n\n    FrobConfig.cmake\n    frob-config.cmake\n\n"
        '  Add the installation prefix of "Frob" to CMAKE_PREFIX_PATH.  If "Frob"\n'
        "  provides a separate development package or SDK, be sure it has been\n"
        "  installed.\n\n\n-- Configuring incomplete, errors occurred!\n"
    )
    text = noted(exchange("bash", {"command": "cmake .."}, output))
    assert "be sure it has been installed." in text
    assert "; installed" not in text


def test_a_quotation_of_several_lines_in_an_error_is_not_taken_apart() -> None:
    error = (
        "ERROR:\nNo replacement was performed, old_str `315\t    case CAPTURE:\n   316\t    case OTHER:\n"
        "   317\t      return pattern;` did not appear verbatim in /w/match.c."
    )
    text = noted(exchange("editor", {"path": "/w/match.c"}, error))
    assert "old_str `315 case CAPTURE: 316 case OTHER: 317 return pattern;` did not appear verbatim" in text


def test_of_a_long_quotation_in_an_error_both_ends_of_the_error_stay() -> None:
    code = "\n".join(f"total += price[{n}]" for n in range(11))
    error = f"No replacement was performed, old_str `{code}` did not appear verbatim in /w/cart.py."
    text = noted(exchange("editor", {"path": "/w/cart.py"}, error))
    assert "No replacement was performed, old_str `total += price[0]" in text
    assert "…` did not appear verbatim in /w/cart.py." in text


def test_what_a_call_says_to_itself_is_noted_as_said() -> None:
    thought = "The total price is $305, but the certificates cover only $255. I need to ask for a card."
    text = noted(exchange("think", {"thought": thought}, ""))
    assert "assistant: The total price is $305, but the certificates cover only $255." in text
    assert "think(" not in text
    assert "ask for a card" not in text


@pytest.mark.parametrize(
    ("arguments", "said", "shown"),
    [
        ({"path": "/w/a.c", "impl_source": "oh_aci"}, "12 lines", False),
        ({"command": "ls /w", "confirmation_state": "confirmed"}, "a.c b.c", False),
        ({"user": "mia_31", "flight_type": "one_way"}, "one-way trip booked", True),
        ({"ticket": "T-9901", "priority": "high"}, "saved", True),
    ],
)
def test_a_setting_of_the_program_itself_is_not_noted(
    arguments: dict[str, object], said: str, *, shown: bool
) -> None:
    text = noted(exchange("tool", arguments, said))
    assert (str(list(arguments.values())[-1]) in text) is shown, text


def test_an_edit_that_was_made_says_so_and_a_look_does_not() -> None:
    shown = "\n".join(f"     {n}\tDEF(idseqsingle{n});" for n in range(689, 703))
    result = "Here's the result of running `cat -n` on a snippet of src/parser.c:\n" + shown
    assert records_of_result(f"The file src/parser.c has been edited. {result}", set()) == [
        "edited, shown: lines 689–702"
    ]
    assert records_of_result(result, set()) == ["lines 689–702"]


def test_the_steps_of_a_plan_are_not_noted_without_it() -> None:
    said = (
        role("user", "Fix the match in src/match.c."),
        role(
            "assistant",
            "Let's try the following:\n1. Re-read the problem of Carla.\n2. Compare it with Oslo.",
            1,
        ),
        role("user", "I have 2 boats in Bergen and 3 in Turin.", 2),
    )
    text = observe(*said, tokens=200)
    assert "Re-read" not in text
    assert "2 boats" in text
