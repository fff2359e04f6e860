"""The container and compose files: their commands are commands of ours, and their parts fit together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import typer.main
import yaml

from onlooker.cli.app import app

DEPLOY = Path(__file__).parents[2] / "deploy"


def options(command: str) -> set[str]:
    group: Any = typer.main.get_command(app())
    return {option for parameter in group.commands[command].params for option in parameter.opts}


def check(arguments: list[str]) -> None:
    command, *rest = arguments
    assert {word for word in rest if word.startswith("--")} <= options(command)


def test_the_commands_of_the_compose_file_exist_and_its_services_wait_for_each_other() -> None:
    found: Any = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    services = found["services"]
    assert set(services) == {"server", "worker", "postgres"}
    for name in ("server", "worker"):
        check(services[name]["command"])
        assert services[name]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
        assert (DEPLOY.parent / services[name]["build"]["dockerfile"]).is_file()
        assert services[name]["environment"]["ONLOOKER_DB"].startswith("postgresql://onlooker:")
    # Nobody but this machine reaches the port without more being said.
    assert services["server"]["ports"] == ["127.0.0.1:8787:8787"]
    assert set(found["volumes"]) == {"postgres"}


def test_the_container_runs_the_server_as_nobody_special_and_asks_whether_it_is_ready() -> None:
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    check(json.loads(command))
    assert re.search(r"^USER onlooker$", text, re.MULTILINE)
    assert "/readyz" in text
    extras = re.findall(r"\[([\w,]+)\]\"$", text, re.MULTILINE)
    project = (DEPLOY.parent / "pyproject.toml").read_text("utf-8")
    assert all(re.search(rf"^{extra} = ", project, re.MULTILINE) for extra in extras[0].split(","))
