"""`settings`: shown with where they come from, set without losing comments, asked for in a form."""

from __future__ import annotations

import json
import os
import pty
import sys
from pathlib import Path

import pytest
from command_line import call, environment

from onlooker.cli.settings import FORM
from onlooker.policy.config import LANGO_SECTION
from onlooker.policy.settings import DEFAULT, KEYS, LANGO, ZORA


def shown(*arguments: object) -> dict[str, dict[str, object]]:
    return {s["key"]: s for s in call("settings", *arguments, "--json").json}


@pytest.mark.req(64)
def test_settings_show_every_key_with_its_default_and_origin(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[onlooker]\npreset = "lango"\nbudget = 5000\n')
    settings = shown("--config", file)
    assert list(settings) == list(KEYS)
    assert (settings["budget"]["value"], settings["budget"]["source"]) == (5000, str(file))
    assert (settings["observe_at"]["value"], settings["observe_at"]["source"]) == (1000, "preset lango")
    assert settings["observe_at"]["default"] == DEFAULT.observe_at
    assert settings["archive"]["source"] == "preset lango"
    table = call("settings", "--config", file).out
    assert all(key in table for key in KEYS)


def test_without_a_file_every_setting_is_its_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert all(s["value"] == s["default"] and s["source"] == "default" for s in shown().values())


def test_a_file_in_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "onlooker.toml").write_text("[onlooker]\nbudget = 9000\n")
    assert shown()["budget"] == {
        "key": "budget",
        "value": 9000,
        "default": 16000,
        "source": "onlooker.toml",
        "allowed": "must be an integer from 0 to 10000000",
    }


@pytest.mark.req(61, 63)
def test_the_sections_of_both_founding_systems_are_read_and_changed_by_their_own_keys(tmp_path: Path) -> None:
    lango = tmp_path / "lango.json"
    lango.write_text('{"observationalMemory": {"enabled": true, "messageTokenThreshold": 1500}}')
    zora = tmp_path / "zora.toml"
    zora.write_text("[memory.compression]\nchunk_size = 30\n")
    assert shown("--config", lango)["observe_at"]["value"] == 1500
    assert shown("--config", lango)["reflect_at"]["value"] == LANGO.reflect_at
    assert shown("--config", zora)["chunk_messages"]["value"] == 30
    assert shown("--config", zora)["reflect_at"]["value"] == ZORA.reflect_at

    assert call("settings", "set", "memoryTokenBudget", 3000, "--config", lango).code == 0
    assert json.loads(lango.read_text())["observationalMemory"]["memoryTokenBudget"] == 3000
    assert shown("--config", lango)["memory_limit"]["value"] == 3000
    refused = call("settings", "set", "chunk", 3, "--config", zora)
    assert refused.code == 2
    assert "memory.compression.chunk = 3" in refused.err


@pytest.mark.req(64)
def test_setting_a_value_keeps_comments_and_everything_else(tmp_path: Path) -> None:
    file = tmp_path / "onlooker.toml"
    file.write_text("# ours\n[other]\nx = 1 # one\n\n[onlooker] # memory\nbudget = 8000 # tokens\n")
    assert call("settings", "set", "budget", 32000, "--config", file).code == 0
    assert call("settings", "set", "precompute", "false", "--config", file).code == 0
    text = file.read_text()
    assert "# ours\n[other]\nx = 1 # one\n\n[onlooker] # memory\nbudget = 32000 # tokens\n" in text
    assert shown("--config", file)["precompute"]["value"] is False


def test_a_settings_file_is_made_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("settings", "set", "observe_at", "0.23").code == 0
    assert (tmp_path / "onlooker.toml").read_text() == "[onlooker]\nobserve_at = 0.23\n"


def test_a_json_file_stays_json(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{"name": "agent"}')
    assert call("settings", "set", "model", "extractive", "--config", file).code == 0
    assert json.loads(file.read_text()) == {"name": "agent", "onlooker": {"model": "extractive"}}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("budget", "3", "budget = 3: must be at least 256"),
        ("observe_at", "1.5", "observe_at = 1.5: must be a share of the budget"),
        ("keep_recent", "0.9", "keep_recent = 0.9: must be below observe_at (0.185)"),
        ("precompute", "perhaps", "precompute = 'perhaps': must be true or false"),
        ("budgett", "3", "onlooker.budgett = 3: is not a setting; did you mean budget?"),
        ("model", "gpt-5-mini", 'did you mean "openai:gpt-5-mini"?'),
    ],
)
def test_a_value_that_cannot_work_is_refused_and_not_written(
    tmp_path: Path, key: str, value: str, said: str
) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[onlooker]\nbudget = 8000\n")
    done = call("settings", "set", key, value, "--config", file)
    assert done.code == 2
    assert said in done.err
    assert file.read_text() == "[onlooker]\nbudget = 8000\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("set",),
        ("set", "budget"),
        ("unset",),
        ("unset", "budget", "1"),
        ("unset", "budgett"),
        ("show", "budget"),
        ("edit", "budget", "1"),
        ("turn",),
    ],
)
def test_settings_used_wrongly_is_exit_code_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert call("settings", *arguments, "--config", tmp_path / "s.toml").code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_setting_is_unset_without_losing_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("# ours\n[onlooker]\nbudget = 8000 # tokens\ncompact = true\n")
    done = call("settings", "unset", "compact", "--config", file)
    assert (done.code, done.err) == (0, f"{file}: compact is no longer set\n")
    assert file.read_text() == "# ours\n[onlooker]\nbudget = 8000 # tokens\n"
    assert call("settings", "unset", "compact", "--config", file).err == f"{file}: compact is not set\n"
    typo = call("settings", "unset", "compct", "--config", file)
    assert "did you mean compact?" in typo.err


def test_a_file_without_a_section_is_read_and_changed_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("budget = 999\n")
    settings = shown("--config", file)
    assert settings["enabled"]["value"] is True
    assert (settings["budget"]["value"], settings["budget"]["source"]) == (999, str(file))
    assert call("settings", "set", "compact", "true", "--config", file).code == 0
    assert file.read_text() == "budget = 999\ncompact = true\n"


@pytest.mark.parametrize(("name", "text"), [("s.toml", "[onlooker\n"), ("s.json", "{"), ("s.json", "[]")])
def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    for arguments in (("settings",), ("settings", "set", "budget", "8000"), ("replay", "-")):
        done = call(*arguments, "--config", tmp_path / name)
        assert done.code == 2
        assert name in done.err
        assert (tmp_path / name).read_text() == text


# ------------------------------------------------------------------------------------ the form


@pytest.mark.req(64)
def test_the_form_asks_for_each_setting_and_writes_what_changed(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    answers = {"budget": "nonsense\n32000\n", "compact": "true\n"}
    typed = "".join(answers.get(key, "\n") for key in FORM) + "y\n"
    done = call("settings", "edit", "--config", file, input=typed)
    assert done.code == 0, done.err
    assert all(f"{key} (" in done.err for key in FORM)
    assert "budget = 'nonsense': must be an integer" in done.err
    assert file.read_text() == "[onlooker]\nbudget = 32000\ncompact = true\n"


@pytest.mark.req(64)
@pytest.mark.parametrize(
    "typed", ["", "\n32000\n", "\n\n32000\n" + "\n" * 8, "\n\n32000\n" + "\n" * 14 + "n\n"]
)
def test_the_end_of_input_leaves_the_file_as_it_was(tmp_path: Path, typed: str) -> None:
    file = tmp_path / "s.toml"
    done = call("settings", "edit", "--config", file, input=typed)
    assert done.code == 1
    assert "nothing was changed" in done.err
    assert not file.exists()


def test_answers_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    typed = "".join({"keep_recent": "0.5\n"}.get(key, "\n") for key in FORM) + "y\n"
    done = call("settings", "edit", "--config", file, input=typed)
    assert done.code == 2
    assert "keep_recent = 0.5: must be below observe_at" in done.err
    assert not file.exists()


@pytest.mark.req(64)
def test_the_form_asks_for_the_keys_of_a_founding_systems_section(tmp_path: Path) -> None:
    file = tmp_path / "lango.json"
    file.write_text('{"observationalMemory": {"enabled": true, "messageTokenThreshold": 1500}}')
    keys = [*LANGO_SECTION.keys, *LANGO_SECTION.model_keys]
    answers = {"maxObservationsInContext": "many\n30\n", "provider": "gemini\n", "model": "gemini-flash\n"}
    typed = "".join(answers.get(key, "\n") for key in keys) + "y\n"
    done = call("settings", "edit", "--config", file, input=typed)
    assert done.code == 0, done.err
    assert [key for key in keys if f"{key} (" in done.err] == keys
    assert "messageTokenThreshold (size of the raw messages at which notes replace them) [1500]:" in done.err
    assert "observationalMemory.maxObservationsInContext = 'many': must be an integer" in done.err
    section = json.loads(file.read_text())["observationalMemory"]
    assert section["maxObservationsInContext"] == 30
    assert shown("--config", file)["model"]["value"] == "google:gemini-flash-latest"

    zora = tmp_path / "zora.toml"
    zora.write_text("[memory.compression]\nchunk_size = 30\n")
    done = call("settings", "edit", "--config", zora, input="false\n" + "\n" * 7 + "y\n")
    assert done.code == 0, done.err
    assert zora.read_text() == "[memory.compression]\nchunk_size = 30\nenabled = false\n"


@pytest.mark.req(64)
def test_the_form_works_on_a_terminal(tmp_path: Path) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        command = [sys.executable, "-m", "onlooker", "settings", "edit"]
        os.execve(sys.executable, command, environment(TERM="xterm"))
    typed = "".join({"budget": "24000\n"}.get(key, "\n") for key in FORM) + "yes\n"
    os.write(terminal, typed.encode())
    seen = b""
    try:
        while chunk := os.read(terminal, 4096):
            seen += chunk
    except OSError:  # what Linux says when the other side has gone
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert b"budget (tokens for a whole context) [16000]:" in seen
    assert b"Written." in seen
    assert (tmp_path / "onlooker.toml").read_text() == "[onlooker]\nbudget = 24000\n"
