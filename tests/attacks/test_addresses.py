"""Passwords in the addresses of databases: whatever is wrong with one, nothing that is printed has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import onlooker
from tests.acceptance.command_line import call

pytestmark = pytest.mark.anyio

PASSWORD = "Hunter2Quokka"
ADDRESSES = {
    "a wrong port": "postgresql://u:{0}@127.0.0.1:port/x",
    "nobody there": "postgresql://u:{0}@127.0.0.1:1/x",
    "raw %": "postgresql://u:{0}%zz@127.0.0.1:1/x",
    "raw @": "postgresql://u:Hu@{0}@127.0.0.1:1/x",
    "raw ?": "postgresql://u:{0}?zz@127.0.0.1:1/x",
    "raw /": "postgresql://u:{0}/zz@127.0.0.1:1/x",
    "raw / after digits": "postgresql://u:12/{0}@127.0.0.1:1/x",
    "raw #": "postgresql://u:{0}#zz@127.0.0.1:1/x",
    "capitals": "PostgreSQL://u:{0}@127.0.0.1:1/x",
    "the short scheme": "postgres://u:{0}@127.0.0.1:1/x",
    "in the query": "postgresql://127.0.0.1:1/x?user=a&password={0}",
    "PASSWORD=": "postgresql://127.0.0.1:1/x?PASSWORD={0}",
    "sslpassword=": "postgresql://127.0.0.1:1/x?sslpassword={0}",
    "an unknown name": "postgresql://u:{0}@127.0.0.1:1/x?nope=1",
    "an open bracket": "postgresql://u:{0}@[::1/x",
    "a wrong scheme": "postgresq://u:{0}@127.0.0.1/x",
    "a driver's scheme": "postgresql+psycopg://u:{0}@127.0.0.1/x",
    "words of libpq": "host=127.0.0.1 port=1 password={0}",
}


@pytest.mark.parametrize("what", ADDRESSES)
async def test_no_error_shows_the_password_of_an_address(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = ADDRESSES[what].format(PASSWORD)
    with pytest.raises(onlooker.OnlookerError) as raised:
        async with onlooker.open_memory(url):
            pass
    assert PASSWORD not in str(raised.value)
    assert PASSWORD not in repr(raised.value)
    assert not os.listdir(tmp_path), "the address became the name of a file"


@pytest.mark.parametrize("what", ADDRESSES)
def test_no_command_prints_the_password_of_an_address(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = ADDRESSES[what].format(PASSWORD)
    for command in (["doctor"], ["doctor", "--json"], ["status"]):
        done = call(*command, "--db", url)
        assert done.code != 0
        assert PASSWORD not in done.out + done.err
