"""Other machines are reached by TLS, and by nothing else unless the address says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onlooker
from onlooker.domain.errors import StoreError
from onlooker.stores.postgres import PostgresStore
from tests.postgres.server import Server
from tests.postgres.tls import Authority, Front

pytestmark = [pytest.mark.anyio, pytest.mark.req(103)]

# Nothing that an address knows for this machine, and yet it is: stands for any other machine.
ELSEWHERE = "0.0.0.0"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def socket_of(server: Server) -> Path:
    return server.folder / "data" / ".s.PGSQL.5432"


@pytest.fixture
def front(authority: Authority, socket_of: Path) -> Iterator[Front]:
    with Front(socket_of, authority.certify("localhost")) as front:
        yield front


@pytest.fixture
def without_tls(socket_of: Path) -> Iterator[Front]:
    with Front(socket_of, None) as front:
        yield front


def url(front: Front, host: str = ELSEWHERE, **query: object) -> str:
    options = "&".join(f"{k}={v}" for k, v in {"schema": "by_tls", **query}.items())
    return f"postgresql://postgres:hunter2@{host}:{front.port}/postgres?{options}"


async def used(url: str) -> None:
    async with onlooker.open_memory(url) as memory:
        session = memory.session("s", owner="ana")
        await session.record(onlooker.user("I moved to Oslo"))
        assert (await session.messages())[-1].text == "I moved to Oslo"


async def test_another_machine_is_reached_by_tls_without_being_asked(front: Front) -> None:
    await used(url(front))
    assert front.encrypted
    assert set(front.encrypted) == {"TLSv1.3"}
    assert front.plain == b""


async def test_a_server_without_tls_is_refused_and_sent_nothing(without_tls: Front) -> None:
    with pytest.raises(StoreError, match="offers no TLS") as raised:
        await PostgresStore(url(without_tls)).open()
    assert "sslmode=disable" in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert without_tls.asked
    assert without_tls.plain == b""


@pytest.mark.parametrize("mode", [None, "require", "verify-ca", "verify-full"])
async def test_no_password_is_sent_in_plain(mode: str | None, authority: Authority) -> None:
    options: dict[str, Any] = {"sslmode": mode, "sslrootcert": authority.file} if mode else {}
    with Front(None, None) as thief:
        with pytest.raises(StoreError, match="offers no TLS"):
            await PostgresStore(url(thief, **options)).open()
        assert (thief.asked > 0, thief.plain) == (True, b"")


async def test_only_an_address_that_says_so_goes_without(without_tls: Front) -> None:
    await used(url(without_tls, sslmode="disable"))
    assert (without_tls.asked, without_tls.plain != b"") == (0, True)


async def test_the_right_server_is_known_by_its_certificate(front: Front, authority: Authority) -> None:
    await used(url(front, "localhost", sslmode="verify-full", sslrootcert=authority.file))
    assert front.encrypted


async def test_a_server_with_a_certificate_of_someone_else_is_refused(front: Front, tmp_path: Path) -> None:
    other = Authority(tmp_path, "theirs")
    with pytest.raises(StoreError, match=r"certificate is not trusted.*sslrootcert"):
        await PostgresStore(url(front, "localhost", sslmode="verify-full", sslrootcert=other.file)).open()


async def test_a_server_with_another_name_is_refused(authority: Authority, socket_of: Path) -> None:
    with Front(socket_of, authority.certify("db.example.com")) as front:
        address = url(front, "localhost", sslmode="verify-full", sslrootcert=authority.file)
        with pytest.raises(StoreError, match="certificate is for another host"):
            await PostgresStore(address).open()
        # Whose it is was proved all the same.
        await used(url(front, "localhost", sslmode="verify-ca", sslrootcert=authority.file))


async def test_a_missing_certificate_of_the_authority_says_so(front: Front, tmp_path: Path) -> None:
    missing = tmp_path / "nothing.crt"
    with pytest.raises(StoreError, match=r"nothing\.crt"):
        await PostgresStore(url(front, "localhost", sslmode="verify-full", sslrootcert=missing)).open()
