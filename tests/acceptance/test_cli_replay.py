"""`replay`: a conversation of the past, remembered as a live session would have."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from command_line import call, run, write_transcript

import onlooker
import onlooker.blocking
from onlooker.demo import conversation
from onlooker.policy.tokens import estimator


def tokens(text: str) -> int:
    return estimator("default").text(text)


@pytest.mark.parametrize("budget", [300, 1000, 4000])
def test_the_context_is_never_longer_than_the_budget(tmp_path: Path, budget: int) -> None:
    transcript = write_transcript(tmp_path / "t.jsonl", conversation()[:150])
    out = tmp_path / "context.txt"
    done = call("replay", transcript, "--db", tmp_path / "x.db", "--budget", budget, "--context", out, "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    text = out.read_text()
    assert 0 < tokens(text) <= budget
    assert "2026-02-1" in text


@pytest.mark.parametrize("length", [400, 5_000, 100_000])
def test_a_last_message_larger_than_the_budget_is_shown_in_part(tmp_path: Path, length: int) -> None:
    huge = " ".join(f"word{i}" for i in range(length))
    transcript = write_transcript(tmp_path / "t.jsonl", [{"id": "1", "role": "user", "content": huge}])
    done = call("replay", transcript, "--db", tmp_path / "x.db", "--budget", 300)
    assert done.code == 0
    assert 150 < tokens(done.out) <= 300
    assert "word0 " in done.out
    assert f"word{length - 1}" in done.out


def test_a_last_message_larger_than_the_budget_leaves_the_notes_in_place(tmp_path: Path) -> None:
    said = [
        {"id": f"{i}", "role": "user", "content": f"The code of door {i} is K-{7000 + i}."} for i in range(60)
    ]
    huge = {"id": "huge", "role": "user", "content": " ".join(f"word{i}" for i in range(5_000))}
    transcript = write_transcript(tmp_path / "t.jsonl", [*said, huge])
    done = call("replay", transcript, "--db", tmp_path / "x.db", "--budget", 1000)
    assert tokens(done.out) <= 1000
    assert done.out.count("K-70") > 20
    assert "word0 " in done.out


def test_the_dates_in_the_text_count_too(tmp_path: Path) -> None:
    start = datetime(2024, 5, 15, 9, tzinfo=UTC)
    said = [
        {"id": str(i), "role": "user", "content": "ok", "created_at": (start + timedelta(days=i)).isoformat()}
        for i in range(200)
    ]
    transcript = write_transcript(tmp_path / "t.jsonl", said)
    done = call("replay", transcript, "--db", tmp_path / "x.db", "--budget", 600, "--preset", "lango")
    assert 300 < estimator("lango").text(done.out) <= 600
    assert "## 2024-11-30" in done.out


def test_it_says_what_it_wrote(tmp_path: Path) -> None:
    transcript = write_transcript(tmp_path / "t.jsonl", conversation()[:60])
    out = tmp_path / "out.txt"
    done = call("replay", transcript, "--db", tmp_path / "x.db", "--budget", 2000, "-o", out)
    assert done.out == ""
    assert re.fullmatch(rf"Wrote {out}: 1,\d\d\d tokens, from \d,\d\d\d tokens of messages\.\n", done.err)
    assert "## Conversation Memory" in out.read_text(encoding="utf-8")


def test_replaying_again_records_nothing_twice(tmp_path: Path) -> None:
    messages = conversation()[:60]
    arguments = ("--db", tmp_path / "x.db", "--session", "s", "--budget", 2000, "--json")
    first = call("replay", write_transcript(tmp_path / "t.jsonl", messages[:50]), *arguments).json
    second = call("replay", tmp_path / "t.jsonl", *arguments).json
    grown = call("replay", write_transcript(tmp_path / "t.jsonl", messages), *arguments).json
    assert [r["recorded"] for r in (first, second, grown)] == [50, 0, 10]
    assert second["text"] == first["text"]
    assert call("status", "--db", tmp_path / "x.db", "--json").json[0]["messages"] == 60


def test_messages_without_an_id_are_recorded_once_as_well(tmp_path: Path) -> None:
    said = [{"role": "user", "content": text} for text in ("yes", "no", "yes")]
    write_transcript(tmp_path / "t.jsonl", said)
    for recorded in (3, 0):
        report = call("replay", tmp_path / "t.jsonl", "--db", tmp_path / "x.db", "--json").json
        assert report["recorded"] == recorded


def test_the_notes_are_those_of_a_live_session(tmp_path: Path) -> None:
    messages = conversation()[:250]
    transcript = write_transcript(tmp_path / "t.jsonl", messages)
    # Large enough that nothing has to be noted while a context is made, beside the background.
    call("replay", transcript, "--db", tmp_path / "x.db", "--session", "s", "--budget", 6000, "--json")
    replayed = call("list", "--db", tmp_path / "x.db", "--all", "--json").json
    assert len(replayed) > 10
    assert sorted(n["content"] for n in replayed) == sorted(asyncio.run(live_notes(messages, budget=6000)))


async def live_notes(messages: list[dict[str, Any]], budget: int) -> list[str]:
    """What a host has that asks for a context before each answer, and gives notes time in between."""
    async with onlooker.open_memory(":memory:", budget=budget) as memory:
        session = memory.session("s")
        await session.context()
        for message in messages:
            if message["role"] == "assistant":
                await session.context()
            await session.record(message)
            await memory.background.flush()
        await session.settle()
        return [n.text for n in await session.notes(statuses=("active", "buffered", "superseded"))]


def test_messages_and_notes_have_the_times_of_the_conversation(tmp_path: Path) -> None:
    start = datetime(2024, 5, 15, 9, tzinfo=UTC)
    said = [
        {
            "id": f"m{i}",
            "role": "user",
            "name": "Ana",
            "content": f"Order 88-{1000 + i} was sent to Oslo on Monday, and it cost 1{i} euros in all.",
            # Without a zone, as many logs have it: UTC is meant.
            "created_at": (start + timedelta(hours=i)).replace(tzinfo=None).isoformat(),
        }
        for i in range(60)
    ]
    transcript = write_transcript(tmp_path / "t.jsonl", said)
    done = call("replay", transcript, "--db", tmp_path / "x.db", "--budget", 600)
    assert "## 2024-05-17" in done.out
    assert "[20:00] Ana: Order 88-1059" in done.out
    (session,) = call("sessions", "--db", tmp_path / "x.db", "--json").json
    assert datetime.fromisoformat(session["started_at"]) == start
    for note in call("list", "--db", tmp_path / "x.db", "--all", "--json").json:
        made = datetime.fromisoformat(note["created_at"])
        assert made >= start + timedelta(hours=note["source_end_index"])
        assert made <= start + timedelta(hours=59)


RESPONSES: list[dict[str, Any]] = [
    {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "Where is order 88-1431?"}],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look it up."}]},
    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"order": "88-1431"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "In Oslo since Monday."},
    {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "content": [{"type": "output_text", "text": "Your order is in Oslo.", "annotations": []}],
    },
]


@pytest.mark.parametrize("form", ["lines", "list", "request"])
def test_items_of_the_responses_api_are_read_as_record_reads_them(tmp_path: Path, form: str) -> None:
    transcript = tmp_path / "t.json"
    if form == "lines":
        write_transcript(transcript, RESPONSES)
    else:
        transcript.write_text(json.dumps(RESPONSES if form == "list" else {"input": RESPONSES}))
    replayed = call("replay", transcript, "--db", tmp_path / "x.db", "--json")
    assert replayed.code == 0, replayed.err
    assert replayed.json["recorded"] == 4
    assert call("replay", transcript, "--db", tmp_path / "x.db", "--json").json["recorded"] == 0
    with onlooker.blocking.open_memory(":memory:") as memory:
        session = memory.session("s")
        session.record(RESPONSES)
        live = session.context().openai()
    shown = call("context", "--db", tmp_path / "x.db", "--format", "openai").json
    assert shown == live
    assert [m["role"] for m in shown[-4:]] == ["user", "assistant", "tool", "assistant"]


def test_a_type_beside_a_role_changes_nothing(tmp_path: Path) -> None:
    said = [{"type": "human", "role": "user", "content": "I moved to Oslo."}]
    done = call("replay", write_transcript(tmp_path / "t.jsonl", said), "--db", tmp_path / "x.db")
    assert "user: I moved to Oslo." in done.out
    with onlooker.blocking.open_memory(":memory:") as memory:
        memory.session("s").record(said)
        assert memory.session("s").context().messages[0].text == "I moved to Oslo."


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"role": "user", "content": "cut of', "not JSON"),
        ('["role", "user"]', "message"),
        ('{"role": "king", "content": "hi"}', "role"),
        ('{"role": "user", "content": "hi", "created_at": "yesterday"}', "created_at"),
        ('{"role": "tool", "content": "orphan"}', "tool_call_id"),
    ],
)
def test_a_line_that_is_no_message_is_named_and_nothing_is_recorded(
    tmp_path: Path, line: str, reason: str
) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"role": "user", "content": "fine"}\n\n' + line + "\n")
    done = call("replay", file, "--db", tmp_path / "x.db")
    assert done.code == 1
    assert f"{file}, line 3: " in done.err
    assert reason in done.err
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize("indent", [None, 2])
def test_one_json_document_is_replayed_as_well(tmp_path: Path, indent: int | None) -> None:
    said = [{"role": "user", "content": "I live in Oslo."}, {"role": "assistant", "content": "Noted."}]
    for key, document in (("list", said), ("request", {"model": "gpt-5", "messages": said})):
        (tmp_path / "t.json").write_text(json.dumps(document, indent=indent))
        done = call("replay", tmp_path / "t.json", "--db", tmp_path / "x.db", "--session", key)
        assert done.code == 0, done.err
        assert "user: I live in Oslo." in done.out
        assert "assistant: Noted." in done.out


def test_a_json_document_with_an_error_says_where_it_is(tmp_path: Path) -> None:
    for text, reason in (
        ('[{"role": "user", "content": "fine"},\n {"role": "king", "content": "hi"}]', "message 2: role"),
        ('[{"role": "user", "content": "fine"},\n {"role": ]', "not JSON: Expecting value: line 2 column 11"),
    ):
        (tmp_path / "t.json").write_text(text)
        done = call("replay", tmp_path / "t.json", "--db", tmp_path / "x.db")
        assert (done.code, done.out) == (1, "")
        assert reason in done.err
        assert not (tmp_path / "x.db").exists()


def test_the_transcript_of_a_coding_agent_is_replayed(tmp_path: Path) -> None:
    at = {"timestamp": "2026-02-16T14:00:00Z"}
    asked, answered = "Rename the module.", "It is called bread.py now."
    claude = [
        {"type": "file-history-snapshot", "messageId": "1"},
        {"type": "user", "uuid": "u1", "message": {"role": "user", "content": asked}, **at},
        {
            "type": "assistant",
            "uuid": "u2",
            "message": {"role": "assistant", "content": [{"type": "text", "text": answered}]},
            **at,
        },
    ]
    codex = [
        {"type": "session_meta", "payload": {"id": "1"}, **at},
        {
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": asked}],
            },
            **at,
        },
        {
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": answered}],
            },
            **at,
        },
    ]
    for name, lines in (("claude", claude), ("codex", codex)):
        transcript = write_transcript(tmp_path / f"{name}.jsonl", lines)
        done = call("replay", transcript, "--db", tmp_path / "x.db", "--session", name)
        assert done.code == 0, done.err
        assert f"## 2026-02-16\n[14:00] user: {asked}\n[14:00] assistant: {answered}" in done.out


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(
        b'{"role": "user", "content": "ok"}\n{"role": "user", "content": "\xff"}\n'
    )
    done = call("replay", tmp_path / "t.jsonl", "--db", tmp_path / "x.db")
    assert done.code == 1
    assert "line 2: not UTF-8" in done.err


def test_standard_input_can_be_replayed_and_the_context_piped_on(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(m, ensure_ascii=False) for m in conversation()[:40])
    done = run("replay", "-", "--budget", 1500, cwd=tmp_path, input=lines)
    assert (done.code, done.err) == (0, "")
    assert 0 < tokens(done.out) <= 1500
    assert (tmp_path / "onlooker.db").is_file()


@pytest.mark.parametrize("preset", ["lango", "zora"])
def test_a_preset_can_be_replayed_with(tmp_path: Path, preset: str) -> None:
    transcript = write_transcript(tmp_path / "t.jsonl", conversation()[:100])
    arguments = ("--db", tmp_path / "x.db", "--preset", preset, "--budget", 3000, "--json")
    report = call("replay", transcript, *arguments).json
    assert report["observations"] + report["reflections"] > 0
    assert estimator(preset).text(report["text"]) <= 3000


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--budget", "10", "budget = 10: must be at least 256"),
        ("--preset", "none", "preset = 'none': must be one of default, lango, zora"),
        ("--model", "nobody:none", "model = 'nobody:none'"),
    ],
)
def test_an_option_that_cannot_work_is_exit_code_2(
    tmp_path: Path, option: str, value: str, said: str
) -> None:
    transcript = write_transcript(tmp_path / "t.jsonl", conversation()[:2])
    done = call("replay", transcript, "--db", tmp_path / "x.db", option, value)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not (tmp_path / "x.db").exists()


def test_a_base_prompt_larger_than_the_budget_is_exit_code_2(tmp_path: Path) -> None:
    transcript = write_transcript(tmp_path / "t.jsonl", conversation()[:2])
    done = call("replay", transcript, "--db", tmp_path / "x.db", "--budget", 300, "--system", "wordy " * 500)
    assert done.code == 2
    assert "cannot hold the base prompt" in done.err


def test_an_empty_file_and_a_missing_one_are_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("\n")
    assert call("replay", tmp_path / "t.jsonl", "--db", tmp_path / "x.db").code == 1
    assert call("replay", tmp_path / "none.jsonl", "--db", tmp_path / "x.db").code == 1


@pytest.mark.req(62, 100)
def test_with_memory_off_in_the_settings_nothing_is_replayed(tmp_path: Path) -> None:
    transcript = write_transcript(tmp_path / "t.jsonl", conversation()[:2])
    for text in ("[onlooker]\nenabled = false\n", "[something_else]\n"):
        (tmp_path / "off.toml").write_text(text)
        done = call("replay", transcript, "--db", tmp_path / "x.db", "--config", tmp_path / "off.toml")
        assert done.code == 2
        assert "memory is off" in done.err


@pytest.mark.long
def test_the_cost_of_a_conversation_is_billed_with_each_providers_cache(tmp_path: Path) -> None:
    """Of a conversation many times longer than the budget, memory costs less than the whole history."""
    words = "about the harbour, the ferries and the weather in Bergen, where the boats lie at the quay"
    said = [
        {
            "id": f"{i}",
            "role": "assistant" if i % 2 else "user",
            "content": f"Day {i} {words}. " * 8,
            "created_at": f"2026-02-16T{9 + i // 60:02}:{i % 60:02}:00+00:00",
        }
        for i in range(240)
    ]
    transcript = write_transcript(tmp_path / "t.jsonl", said)
    db = tmp_path / "x.db"
    options = ("replay", transcript, "--budget", 8000, "--cost", "--db", db)
    cost = json.loads(call(*options, "--json").out)["cost"]
    assert set(cost) == {"Anthropic", "OpenAI", "Gemini"}
    for billed in cost.values():
        assert 0 < billed["onlooker"] < billed["full_history"]
        # Not above a host that drops the older half, and forgets it, by more than a tenth.
        assert billed["onlooker"] <= 1.1 * billed["drop_half"]
        assert billed["of_full_history"] == round(billed["onlooker"] / billed["full_history"], 2)
    shown = call(*options, "--context", tmp_path / "context.txt", "-q").out
    assert f"{cost['Anthropic']['onlooker']:,}" in shown
    assert "of full history" in shown


def test_a_bill_is_the_same_each_time_and_leaves_the_database_alone(tmp_path: Path) -> None:
    roles = ("user", "assistant")
    said = [{"role": roles[i % 2], "content": f"{i}: the ferry. " * 60} for i in range(40)]
    transcript, db = write_transcript(tmp_path / "t.jsonl", said), tmp_path / "x.db"
    call("replay", transcript, "--budget", 4000, "--db", db)
    recorded = json.loads(call("sessions", "--db", db, "--json").out)
    bills = [call("replay", transcript, "--cost", "--budget", 4000, "--db", db).out for _ in range(2)]
    assert bills[0] == bills[1] == call("replay", transcript, "--cost", "--budget", 4000).out
    assert bills[0].startswith("provider")  # without the context, which nobody asked for
    assert json.loads(call("sessions", "--db", db, "--json").out) == recorded
