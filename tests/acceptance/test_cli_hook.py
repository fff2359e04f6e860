"""`onlooker hook`: what Claude Code and Codex get, and what is recorded of their transcripts.

The transcripts in `tests/data/transcripts` were written by the agents themselves, and shortened.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command_line import Done, call, environment, run

from onlooker import Message
from onlooker.blocking import open_memory

DATA = Path(__file__).parents[1] / "data" / "transcripts"
FIRST = "Parcel ZQ003K belongs to Ana, and stands in hall 7. Always use tabs in this depot."
SECOND = "We decided to deploy on Fridays only. What is left to do?"
LAST = "The cache is written. Still to do: wire it into rows.py."
AGENTS = ("claude", "codex")


class Desk:
    """A user's home, a project, and a session of a coding agent."""

    def __init__(
        self, home: Path, agent: str = "claude", session: str = "s-1", project: str = "depot"
    ) -> None:
        self.home, self.agent, self.session = home, agent, session
        self.project = home / project
        self.project.mkdir(exist_ok=True)
        self.transcript = home / f"{session}.jsonl"

    @property
    def db(self) -> Path:
        return self.home / ".onlooker" / "memory.db"

    def event(self, **more: Any) -> str:
        given = {
            "session_id": self.session,
            "transcript_path": str(self.transcript),
            "cwd": str(self.project),
        }
        return json.dumps(given | more)

    def hook(self, event: str, *options: str, **more: Any) -> Done:
        """The hook in this process."""
        given = self.event(hook_event_name=event, **more)
        return call("hook", event, "--agent", self.agent, *options, input=given, HOME=str(self.home))

    def context(self, event: str, *options: str, **more: Any) -> str:
        """What the hook adds to the agent's context."""
        done = self.hook(event, *options, **more)
        assert done.code == 0, done.err
        if not done.out.strip():
            return ""
        found = done.json["hookSpecificOutput"]
        assert found["hookEventName"] == event
        return found["additionalContext"]

    def process(self, event: str, *options: str, input: str | None = None, **more: Any) -> Done:
        """The hook as the agents run it."""
        given = self.event(hook_event_name=event, **more) if input is None else input
        arguments = ("hook", event, "--agent", self.agent, "--deadline", "200", *options)
        return run(*arguments, cwd=self.project, input=given, HOME=str(self.home))

    def says(self, *lines: dict[str, Any]) -> None:
        """Add lines to the transcript, as Claude Code writes them."""
        with self.transcript.open("a", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps({"uuid": os.urandom(8).hex(), "timestamp": now(), **line}) + "\n")

    def recorded(self) -> list[Message]:
        """What the memory has of the session."""
        with open_memory(self.db, workers="external") as memory:
            session = memory.session(f"{self.agent}:{self.session}", owner=os.path.realpath(self.project))
            return list(session.messages(archived=True))

    def others(self, session: str) -> Desk:
        """Another session in the same project."""
        return Desk(self.home, self.agent, session, self.project.name)

    def wait(self) -> None:
        """Wait for the process that takes notes. It works in the folder that hooks share."""
        until = time.monotonic() + 120
        while any(_works_in(self.home, entry) for entry in Path("/proc").glob("[0-9]*")):
            assert time.monotonic() < until
            time.sleep(0.05)


def _works_in(home: Path, process: Path) -> bool:
    try:
        return Path(os.readlink(process / "cwd")) == home / ".onlooker"
    except OSError:
        return False


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def user(text: Any, **more: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": text}, **more}


def assistant(text: str, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message, **more}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def recorded_desk(tmp_path: Path, agent: str) -> Desk:
    """A session that the real agent had."""
    desk = Desk(tmp_path, agent)
    desk.transcript.write_bytes((DATA / f"{agent}.jsonl").read_bytes())
    return desk


# ------------------------------------------------------------------------------------ what is recorded


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="it looks for the process in /proc")
@pytest.mark.parametrize("agent", AGENTS)
def test_what_one_session_said_reaches_the_next(tmp_path: Path, agent: str) -> None:
    first = recorded_desk(tmp_path, agent)
    done = first.process("Stop", last_assistant_message=LAST)
    assert (done.code, done.out, done.err) == (0, "", "")
    second = Desk(tmp_path, agent, "s-2")
    # The process that records need not be done.
    start = json.loads(second.process("SessionStart", source="startup").out)["hookSpecificOutput"]
    assert start["hookEventName"] == "SessionStart"
    for said in ("ZQ003K belongs to Ana", "deploy on Fridays only", "wire it into rows.py"):
        assert said in start["additionalContext"]
    first.wait()
    # By then there are items, of what is to be done always.
    known = second.others("s-3").context("SessionStart", source="startup").partition("## Known")[2]
    assert "tabs in this depot" in known.partition("##")[0]
    asked = second.context("UserPromptSubmit", prompt="Whose parcel is ZQ003K?")
    assert "ZQ003K belongs to Ana" in asked
    assert not (tmp_path / ".onlooker" / "hook.log").exists()
    assert not any((tmp_path / ".onlooker" / "hooks" / "due").iterdir())


@pytest.mark.parametrize("agent", AGENTS)
def test_a_transcript_is_recorded_once_and_as_it_was(tmp_path: Path, agent: str) -> None:
    desk = recorded_desk(tmp_path, agent)
    for _ in range(3):
        desk.hook("UserPromptSubmit", prompt="And now?")
    recorded = desk.recorded()
    assert [m.text for m in recorded if m.role == "user"] == [FIRST, SECOND]
    assert [m.text for m in recorded if m.role == "assistant" and m.text] == [
        *["Looking.", "Looking.", LAST] * 2
    ]
    results = [m for m in recorded if m.role == "tool"]
    assert len(results) == 4
    assert all("row is full" in m.text for m in results)
    calls = [c.id for m in recorded for c in m.calls]
    assert [m.answers for m in results] == calls
    assert {f"{m.at:%Y-%m-%d}" for m in recorded} == {"2026-11-16"}


@pytest.mark.parametrize("agent", AGENTS)
def test_what_an_agent_injects_is_not_recorded(tmp_path: Path, agent: str) -> None:
    desk = recorded_desk(tmp_path, agent)
    assert "injected by a hook" in desk.transcript.read_text()
    desk.hook("UserPromptSubmit", prompt="And now?")
    everything = "\n".join(m.text for m in desk.recorded())
    for injected in ("injected by a hook", "AGENTS.md", "environment_context", "skills"):
        assert injected not in everything


def test_what_claude_code_writes_in_the_users_name_is_not_recorded(desk: Desk) -> None:
    desk.says(
        user("Here is the summary of an earlier conversation.", isCompactSummary=True),
        user("Base directory for this skill: /skills", isMeta=True),
        user("Look into the subject.", isSidechain=True),
        assistant("Prompt is too long", isApiErrorMessage=True),
        user("[Request interrupted by user]"),
        user("<command-name>/clear</command-name><command-message>clear</command-message>"),
        user("<command-message>plan</command-message><command-name>/plan</command-name>"
             "<command-args>a cache for rows</command-args>"),
        user("<local-command-stdout>done</local-command-stdout>"),
        user([{"type": "text", "text": "<system-reminder>Use the todo list.</system-reminder>"},
              {"type": "text", "text": "The harbour opens at six."}]),
        {"type": "assistant", "message": {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "They want coffee.", "signature": "x"}]}},
        assistant("At six, then."),
        {"type": "queue-operation", "content": "The harbour opens at six."},
    )  # fmt: skip
    desk.hook("UserPromptSubmit", prompt="And now?")
    assert [m.text for m in desk.recorded()] == [
        "a cache for rows",
        "The harbour opens at six.",
        "At six, then.",
    ]


def test_a_line_that_is_being_written_is_read_later(desk: Desk) -> None:
    desk.says(user("The harbour opens at six."))
    line = json.dumps({"uuid": "u-2", "timestamp": now(), **assistant("At six, then.")})
    with desk.transcript.open("a") as file:
        file.write(line[:40])
    desk.hook("UserPromptSubmit", prompt="And now?")
    assert len(desk.recorded()) == 1
    with desk.transcript.open("a") as file:
        file.write(line[40:] + "\n")
    desk.hook("UserPromptSubmit", prompt="And now?")
    assert [m.text for m in desk.recorded()] == ["The harbour opens at six.", "At six, then."]


def test_a_line_of_no_known_form_keeps_no_other_out(desk: Desk) -> None:
    desk.transcript.write_text('not JSON\n[1]\n{"type":"user","message":7}\n\n')
    desk.says(
        user([{"type": "tool_result", "tool_use_id": 7, "content": {"a": 1}}]), user("It opens at six.")
    )
    desk.hook("UserPromptSubmit", prompt="And now?")
    assert [m.text for m in desk.recorded()][-1] == "It opens at six."


def test_what_was_forgotten_stays_forgotten(desk: Desk) -> None:
    desk.says(user("My password hint is the name of a lighthouse."), assistant("I see."))
    desk.hook("UserPromptSubmit", prompt="And now?")
    (told, _) = desk.recorded()
    done = call("forget", told.id, "--db", desk.db, "--yes")
    assert done.code == 0, done.err
    desk.says(user("The harbour opens at six."))
    desk.hook("UserPromptSubmit", prompt="And now?")
    assert [m.text for m in desk.recorded()] == ["I see.", "The harbour opens at six."]


# ------------------------------------------------------------------------------------ the context


def test_nothing_is_said_where_nothing_is_known(desk: Desk) -> None:
    assert desk.context("SessionStart", source="startup") == ""
    assert desk.context("UserPromptSubmit", prompt="Hello?") == ""
    assert not desk.db.exists()


def test_a_project_does_not_hear_of_another(desk: Desk, tmp_path: Path) -> None:
    desk.says(user("Parcel ZQ003K belongs to Ana."), assistant("I see."))
    desk.hook("UserPromptSubmit", prompt="And now?")
    other = Desk(tmp_path, session="s-2", project="bakery")
    assert other.context("SessionStart", source="startup") == ""
    assert other.context("UserPromptSubmit", prompt="Whose parcel is ZQ003K?") == ""
    # Unless both are told to share.
    for each in (desk, other):
        each.says(user(f"The {each.project.name} has a cat called Tiger-{each.project.name}."))
        each.hook("UserPromptSubmit", "--owner", "ana", prompt="And now?")
    shared = other.context("UserPromptSubmit", "--owner", "ana", prompt="What is the cat called?")
    assert "Tiger-depot" in shared


def test_the_project_is_the_repository(desk: Desk) -> None:
    (desk.project / ".git").mkdir()
    inside = desk.project / "src" / "rows"
    inside.mkdir(parents=True)
    desk.says(user("Parcel ZQ003K belongs to Ana."), assistant("I see."))
    desk.hook("UserPromptSubmit", prompt="And now?", cwd=str(inside))
    asked = desk.others("s-2").context("UserPromptSubmit", prompt="Whose parcel is ZQ003K?")
    assert "belongs to Ana" in asked


def test_an_agent_is_not_told_what_it_still_has(desk: Desk) -> None:
    desk.says(user("Parcel ZQ003K belongs to Ana."), assistant("I see."))
    assert desk.context("UserPromptSubmit", prompt="Whose parcel is ZQ003K?") == ""
    # When it has compacted its own context, it is.
    desk.says({"type": "system", "subtype": "compact_boundary"})
    text = desk.transcript.read_text().replace('": "', '":"')
    desk.transcript.write_text(text)
    assert "belongs to Ana" in desk.context("UserPromptSubmit", prompt="Whose parcel is ZQ003K?")
    assert "belongs to Ana" in desk.context("SessionStart", source="compact")


def test_an_agent_that_runs_a_hook_twice_is_told_once(desk: Desk) -> None:
    """With hooks in the user's settings and in the project's."""
    desk.says(user(FIRST), assistant("I see."))
    desk.hook("Stop")
    desk.wait()
    for event, given in (
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": "Whose parcel is ZQ003K?"}),
    ):
        later = desk.others("s-2")
        assert "belongs to Ana" in later.context(event, **given)
        assert later.context(event, **given) == ""
        # Another prompt, another session and another memory are answered.
        assert "belongs to Ana" in later.context(event, prompt="Say again whose parcel ZQ003K is.")
        assert "belongs to Ana" in desk.others("s-3").context(event, **given)
        # As is the same prompt after a while.
        for claim in (desk.home / ".onlooker" / "hooks" / "claims").iterdir():
            os.utime(claim, (0, 0))
        assert "belongs to Ana" in later.context(event, **given)


def test_the_context_stays_small(desk: Desk) -> None:
    for n in range(60):
        desk.says(user(f"Row {n} of the depot is full of parcels. " * 20), assistant("Noted. " * 200))
    desk.hook("UserPromptSubmit", prompt="And now?")
    second = desk.others("s-2")
    # Claude Code shows no more than 10,000 characters.
    assert 0 < len(second.context("SessionStart", source="startup")) < 9_000
    assert 0 < len(second.context("UserPromptSubmit", prompt="Which row of the depot is full?")) < 6_000


def test_recording_events_return_nothing(desk: Desk) -> None:
    """What `Stop` returns would make the agent go round again."""
    desk.says(user("Parcel ZQ003K belongs to Ana."), assistant("I see."))
    for event in ("Stop", "PreCompact", "SessionEnd", "Notification"):
        done = desk.hook(event)
        assert (done.code, done.out.strip()) == (0, "")
    desk.wait()
    assert len(desk.recorded()) == 2


def test_settings_of_the_project_are_not_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made the project would choose where its sessions are sent."""
    (desk.project / "onlooker.toml").write_text('[onlooker]\nenabled = false\nmodel = "openai:gpt-5"\n')
    monkeypatch.chdir(desk.project)
    desk.says(user("Parcel ZQ003K belongs to Ana."), assistant("I see."))
    desk.hook("UserPromptSubmit", prompt="And now?")
    assert len(desk.recorded()) == 2
    # The user's own are.
    (desk.home / ".onlooker" / "onlooker.toml").write_text("[onlooker]\nenabled = false\n")
    assert desk.others("s-2").context("UserPromptSubmit", prompt="Whose parcel is ZQ003K?") == ""


# ------------------------------------------------------------------------------------ trouble


@pytest.mark.parametrize("given", ["", "[]", "{}"])
def test_a_hook_never_fails(desk: Desk, given: str) -> None:
    done = desk.process("UserPromptSubmit", "--nonsense", "x", input=given)
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_failure_is_logged_and_shown_by_doctor(desk: Desk) -> None:
    desk.says(user("Parcel ZQ003K belongs to Ana."))
    bad = desk.home / "bad.db"
    bad.write_bytes(b"This is not a database, but it is a file. " * 100)
    done = desk.process("UserPromptSubmit", "--db", str(bad), prompt="And now?")
    assert (done.code, done.out, done.err) == (0, "", "")
    (line,) = (desk.home / ".onlooker" / "hook.log").read_text().splitlines()
    assert "UserPromptSubmit: " in line
    assert "bad.db" in line
    shown = call("doctor", "--db", desk.home / "none.db", HOME=str(desk.home), COLUMNS="1000")
    assert shown.code == 1
    assert "1 failure in the last day" in shown.out
    assert "bad.db" in shown.out
    done = desk.process("UserPromptSubmit", "--db", str(bad), "--debug", prompt="And now?")
    assert done.code == 0
    assert done.out == ""
    assert "bad.db" in done.err


def test_a_hook_ends_though_nobody_closes_its_input(desk: Desk) -> None:
    command = [sys.executable, "-m", "onlooker", "hook", "UserPromptSubmit", "--deadline", "1"]
    env = environment(HOME=str(desk.home))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=desk.home
    ) as hook:
        assert hook.wait(timeout=120) == 0
        assert hook.stdout
        assert hook.stdout.read() == b""
    assert "TimeoutError" in (desk.home / ".onlooker" / "hook.log").read_text()


def test_what_hooks_share_is_for_the_user_alone(desk: Desk) -> None:
    desk.says(user("Parcel ZQ003K belongs to Ana."))
    desk.hook("Stop")
    desk.wait()
    desk.process("UserPromptSubmit", input="not JSON")
    for path in ((desk.home / ".onlooker"), *(desk.home / ".onlooker").rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_a_killed_process_loses_nothing(desk: Desk) -> None:
    """The job stays until it is done, and the next event of the project does it."""
    desk.says(user("Parcel ZQ003K belongs to Ana."), assistant("I see."))
    due = desk.home / ".onlooker" / "hooks" / "due"
    due.mkdir(parents=True)
    db, project = str(desk.db), os.path.realpath(desk.project)
    job = ["claude", desk.session, str(desk.transcript), project, db, False, ""]
    (due / "1-1.json").write_text(json.dumps(job))
    asked = desk.others("s-2").context("UserPromptSubmit", prompt="Whose parcel is ZQ003K?")
    assert "belongs to Ana" in asked
    done = call("hook", "notes", HOME=str(desk.home))
    assert done.code == 0, done.err
    assert not list(due.iterdir())


def test_an_answer_that_is_not_in_the_transcript_yet_is_waited_for(desk: Desk) -> None:
    desk.says(user("Parcel ZQ003K belongs to Ana."))
    desk.process("Stop", last_assistant_message="I see.")
    desk.says(assistant("I see."))
    desk.wait()
    assert [m.text for m in desk.recorded()] == ["Parcel ZQ003K belongs to Ana.", "I see."]


# ------------------------------------------------------------------------------------ installation

OTHERS = {
    "model": "opus",
    "hooks": {
        "Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "say done"}]}],
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "look.sh"}]}],
    },
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def install(home: Path, *options: str, action: str = "install") -> Done:
    done = call("hook", action, *options, HOME=str(home), CLAUDE_CONFIG_DIR="", CODEX_HOME="")
    assert done.code == 0, done.err
    return done


def commands(path: Path) -> dict[str, list[str]]:
    hooks = json.loads(path.read_text()).get("hooks", {})
    return {event: [h["command"] for g in groups for h in g["hooks"]] for event, groups in hooks.items()}


@pytest.mark.parametrize(
    ("agent", "scope", "name"),
    [
        ("claude", "project", ".claude/settings.local.json"),
        ("claude", "user", "home/.claude/settings.json"),
        ("codex", "project", ".codex/hooks.json"),
        ("codex", "user", "home/.codex/hooks.json"),
    ],
)
def test_hooks_are_installed_beside_those_of_others(project: Path, agent: str, scope: str, name: str) -> None:
    path = project / name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(OTHERS, indent=4))
    before = path.read_text()
    install(project / "home", "--agent", agent, "--scope", scope)
    found = commands(path)
    assert found["PreToolUse"] == ["look.sh"]
    assert found["Stop"][0] == "say done"
    assert len(found["Stop"]) == 2
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"):
        assert found[event][-1].endswith(f"hook {event} --agent {agent}")
    # The file as it was is kept, and a second time changes nothing.
    (copy,) = path.parent.glob("*.bak")
    assert copy.read_text() == before
    again = path.read_text()
    install(project / "home", "--agent", agent, "--scope", scope)
    assert path.read_text() == again
    assert len(list(path.parent.glob("*.bak"))) == 1
    install(project / "home", "--agent", agent, "--scope", scope, action="uninstall")
    assert json.loads(path.read_text()) == OTHERS
    assert path.read_text() == before + "\n"


def test_files_that_the_hooks_alone_needed_are_removed_with_them(project: Path) -> None:
    install(project / "home")
    install(project / "home", action="uninstall")
    assert [path.name for path in project.rglob("*") if path.suffix in (".json", ".bak")] == []


def test_an_installed_hook_runs(project: Path) -> None:
    """The command in the settings, as the agent's shell runs it."""
    install(project / "home", "--agent", "claude", "--db", "my memory.db", "--deadline", "200")
    command = commands(project / ".claude" / "settings.local.json")["UserPromptSubmit"][0]
    desk = Desk(project)
    desk.says(user("Parcel ZQ003K belongs to Ana."), assistant("I see."))
    done = subprocess.run(
        command,
        shell=True,
        input=desk.event(prompt="And now?"),
        env=environment(HOME=str(project)),
        cwd=desk.project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (project / "my memory.db").is_file()


def test_a_dry_run_changes_nothing(project: Path) -> None:
    done = install(project / "home", "--dry-run")
    assert "hook SessionStart --agent claude" in done.out
    assert "hook SessionStart --agent codex" in done.out
    assert not list(project.iterdir())


def test_installing_again_with_other_options_replaces_the_hooks(project: Path) -> None:
    install(project / "home", "--agent", "claude")
    install(project / "home", "--agent", "claude", "--owner", "ana")
    found = commands(project / ".claude" / "settings.local.json")
    assert all(len(each) == 1 and each[0].endswith("--owner ana") for each in found.values())


@pytest.mark.parametrize("text", ['{"hooks": {}, // mine\n}', "[]", '{"hooks": []}'])
def test_settings_that_cannot_be_read_stay_as_they_are(project: Path, text: str) -> None:
    path = project / ".claude" / "settings.local.json"
    path.parent.mkdir()
    path.write_text(text)
    done = call("hook", "install", "--agent", "claude", HOME=str(project))
    assert done.code == 1
    assert "was not changed" in done.err
    assert path.read_text() == text


def test_a_typing_error_is_one(project: Path) -> None:
    done = call("hook", "instal", HOME=str(project))
    assert done.code == 2
    assert "must be install, uninstall" in done.err
