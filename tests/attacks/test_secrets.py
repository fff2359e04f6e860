"""Secrets: 83 formats in five forms, and the places that a secret could get to."""

from __future__ import annotations

import json
import logging
import random
import re
import string
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import onlooker
from onlooker import assistant, tool, user
from onlooker.demo import conversation
from onlooker.domain.messages import Message, SessionId, ToolCall
from onlooker.events import Recorded
from onlooker.models.llm import prompt_of
from onlooker.policy.secrets import add_secret, find_secrets, mask
from onlooker.ports import ItemsRequest, ObserveRequest, Request
from onlooker.testing import ScriptedModel, WordEmbedder

_random = random.Random(7)
LETTERS = string.ascii_letters + string.digits
CAPITALS = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


def r(length: int, letters: str = LETTERS) -> str:
    return "".join(_random.choice(letters) for _ in range(length))


def one(secret: str) -> tuple[str, str]:
    return secret, secret


def of(form: str, secret: str, part: str = "") -> tuple[str, str]:
    """A line with the secret in it, and the part of it that must not be seen."""
    return form.replace("*", secret), part or secret


def pem(kind: str) -> tuple[str, str]:
    lines = [r(64) for _ in range(4)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"]), lines[1]


PASSWORD = "S3cr3t" + r(8)
SEED = "abandon ability able about above absent absorb abstract absurd abuse access accident"
# By name: the line, and the part of it that must not be seen.
FORMATS: dict[str, tuple[str, str]] = {
    "AWS access key id": one("AKIA" + r(16, CAPITALS)),
    "AWS secret (bare)": one(r(40)),
    "AWS secret (named)": of("aws_secret_access_key = *", r(40)),
    "GitHub ghp_": one("ghp_" + r(36)),
    "GitHub fine-grained": one("github_pat_" + r(22) + "_" + r(59)),
    "GitLab glpat": one("glpat-" + r(20)),
    "Slack bot xoxb": one(f"xoxb-{r(12, '0123456789')}-{r(12, '0123456789')}-{r(24)}"),
    "Slack app xapp": one(f"xapp-1-A{r(10)}-{r(13, '0123456789')}-{r(64, HEX)}"),
    "Slack webhook": of(f"https://hooks.slack.com/services/T{r(8)}/B{r(8)}/*", r(24)),
    "Stripe sk_live": one("sk_live_" + r(24)),
    "Stripe whsec": one("whsec_" + r(32)),
    "OpenAI sk-proj": one("sk-proj-" + r(48)),
    "Anthropic sk-ant": one("sk-ant-api03-" + r(80)),
    "Google AIza": one("AIza" + r(35)),
    "Google OAuth secret": one("GOCSPX-" + r(28)),
    "Google access ya29": one("ya29." + r(60)),
    "JWT": one("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + r(43)),
    "PEM RSA": pem("RSA PRIVATE KEY"),
    "PEM OPENSSH": pem("OPENSSH PRIVATE KEY"),
    "PGP private block": pem("PGP PRIVATE KEY BLOCK"),
    "PuTTY ppk": of("PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 4\n*", r(64)),
    "npm npm_": one("npm_" + r(36)),
    "PyPI pypi-": one("pypi-AgEIcHlwaS5vcmc" + r(60)),
    "Azure storage AccountKey": of(
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=*==;EndpointSuffix=windows.net", r(86)
    ),
    "Azure SAS sig": of("https://a.blob.core.windows.net/c?sv=2022&sig=*%3D", r(43)),
    "Azure client secret": one(r(3) + "8Q~" + r(34)),
    "Twilio SK": one("SK" + r(32, HEX)),
    "Twilio auth token (named)": of("TWILIO_AUTH_TOKEN=*", r(32, HEX)),
    "SendGrid SG.": one(f"SG.{r(22)}.{r(43)}"),
    "Mailgun key-": one("key-" + r(32, HEX)),
    "Telegram bot": one(f"{r(9, '123456789')}:AA{r(33)}"),
    "Discord bot": one(f"M{r(23)}.{r(6)}.{r(27)}"),
    "DigitalOcean dop_v1": one("dop_v1_" + r(64, HEX)),
    "HuggingFace hf_": one("hf_" + r(34)),
    "Databricks dapi": one("dapi" + r(32, HEX)),
    "Shopify shpat": one("shpat_" + r(32, HEX)),
    "Vault hvs.": one("hvs." + r(24)),
    "postgres URL": of("postgresql://app:*@db.example.com/app", PASSWORD),
    "redis URL, no user": of("redis://:*@cache.example.com:6379/0", PASSWORD),
    "URL, password with /": of("mysql://root:*@db.example.com/app", "S3c/r3t" + r(8)),
    "URL, password with @": of("mysql://root:*@db.example.com/app", "S3c@" + PASSWORD, PASSWORD),
    "token-only URL": of("https://*@github.com/o/r.git", r(40, HEX)),
    "DSN keyword": of("host=db user=app password=* dbname=x", PASSWORD),
    "JDBC ?password=": of("jdbc:mysql://db/app?user=a&password=*&ssl=1", PASSWORD),
    "Bearer header": of("Authorization: Bearer *", r(40)),
    "Authorization: token": of("Authorization: token *", r(40, HEX)),
    "X-Api-Key header": of("X-Api-Key: *", r(32)),
    "Cookie": of("Set-Cookie: session=*; HttpOnly", r(40)),
    "Basic header": of("Authorization: Basic *=", r(27)),
    "basic auth URL": of("https://bob:*@example.com/x", PASSWORD),
    "curl -u": of("curl -u bob:* https://example.com", PASSWORD),
    "mysql -p": of("mysql -uroot -p* app", PASSWORD),
    ".env DB_PASS": of("DB_PASS=*", PASSWORD),
    ".env PASSWORD": of("DB_PASSWORD=*", PASSWORD),
    ".env TOKEN": of("DEPLOY_TOKEN=*", r(32)),
    ".env SECRET_KEY": of("SECRET_KEY=*", r(50)),
    ".env SIGNING_KEY": of("SIGNING_KEY=*", r(50)),
    "password, letters only": of("password: *", "correcthorsebattery"),
    "password is (prose)": of("my password is *", "Quokka"),
    "password is short": of("my password is *", "ab12!"),
    "passphrase of words": of("passphrase: *", "correct horse battery quokkas", "quokkas"),
    "quoted with spaces": of('password = "*"', "Quok4 ka9 lives7here", "lives7here"),
    "Passwort (de)": of("Passwort: *", PASSWORD),
    "密码 (zh)": of("密码：*", PASSWORD),
    "PIN": of("my PIN is *", "4417"),
    "JSON password": of(json.dumps({"user": "a", "password": "*"}), PASSWORD),
    "JSON escaped in JSON": of(json.dumps({"body": json.dumps({"password": "*"})}), PASSWORD),
    "YAML password": of("db:\n  password: '*'", PASSWORD),
    "XML <password>": of("<password>*</password>", PASSWORD),
    "card 16": one("4111111111111111"),
    "card 16 spaced": one("4111 1111 1111 1111"),
    "card dashes": one("5500-0000-0000-0004"),
    "card Amex": one("3782 822463 10005"),
    "card NBSP": one("4111\u00a01111\u00a01111\u00a01111"),
    "card dots": one("4111.1111.1111.1111"),
    "IBAN": one("DE89370400440532013000"),
    "IBAN spaced": one("GB29 NWBK 6016 1331 9268 19"),
    "US SSN": one("078-05-1120"),
    "BIP39 phrase": of("seed phrase: *", SEED, "absent absorb"),
    "Ethereum key": one("0x" + r(64, HEX)),
    "age key": one("AGE-SECRET-KEY-1" + r(58, CAPITALS)),
    "Base64 kube client-key-data": of("client-key-data: *", r(80)),
    "Terraform/Atlas": one(r(14) + ".atlasv1." + r(67)),
}
MANY_WORDS = " ".join(f"{word} and" for word in string.ascii_lowercase * 4)
FORMS: dict[str, Callable[[str], str]] = {
    "alone": str,
    "at the end of a sentence": "Please use {}.".format,
    "in JSON": lambda line: json.dumps({"output": line}),
    "before a comma": "keys: {}, and more".format,
    "in a long text": lambda line: f"{MANY_WORDS}\n{line}\n{MANY_WORDS}",
}
# JSON writes the word before it as escapes.
NOT_MASKED = {("密码 (zh)", "in JSON")}


def is_seen(secret: str, text: str) -> bool:
    return re.sub(r"\s", "", secret) in re.sub(r"\s", "", text.replace("\\n", "\n"))


@pytest.mark.parametrize("form", FORMS)
def test_secrets_are_masked_in_every_form(form: str) -> None:
    seen = {(name, form) for name, (line, part) in FORMATS.items() if is_seen(part, mask(FORMS[form](line)))}
    assert len(FORMATS) == 83
    assert seen == {which for which in NOT_MASKED if which[1] == form}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_masked_stays_as_it_is(form: str) -> None:
    for line, _ in FORMATS.values():
        masked = mask(FORMS[form](line))
        assert mask(masked) == masked


NO_SECRETS = [
    "I forgot my password again, it was too long",
    "The password is wrong. The token is invalid, and the secret: nobody knows.",
    "password: str, token: Optional[str] = None, secret_key=os.environ['KEY']",
    "tokens = tokenizer.encode(text); next_token = tokens[i + 1]; key = keys[0]",
    "commit 9852922f1c6a4d0e8b7a6c5d4e3f2a1b0c9d8e7f, sha256 " + "0a1b2c3d" * 8,
    "order 1234567890123, ticket 4111-1111, card ending in 4242, version 4.11.1111",
    "id 3f2b8c1e-9a7d-4e5f-8b6c-1d2e3f4a5b6c at https://example.com:8080/@scope/package",
    "see https://medium.com/@ana/how-to and mail me at ana@example.com",
    "the primary key is user_id and the foreign key = order_id",
    "at 10:15:30 the pin is on the map; press any key: it works",
    "gift_card_8887175 and the sort_key=created_at; author: ana1984, authority: none",
    "PIN the message, then basic authentication works, bearer of good news",
]


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


def test_nothing_in_an_ordinary_conversation_is_taken_for_a_secret() -> None:
    assert [m for m in conversation() if find_secrets(json.dumps(m, ensure_ascii=False))] == []


def test_a_key_that_was_cut_in_its_middle_is_masked() -> None:
    key, _ = pem("RSA PRIVATE KEY")
    lines = key.splitlines()
    assert not is_seen(lines[3], mask("\n".join(["…", *lines[2:], "done"])))
    assert not is_seen(lines[3], mask("\n".join(["begin", *lines[:4]])))


def test_a_program_adds_its_own_secrets() -> None:
    assert mask("badge ACME-12345678") == "badge ACME-12345678"
    add_secret("badge", r"ACME-(?P<secret>\d{8})")
    assert mask("badge ACME-12345678") == "badge ACME-[secret]"
    assert [s.kind for s in find_secrets("badge ACME-12345678")] == ["badge"]


TOKEN = "ghp_QUOKKAabcdefghij0123456789ABCDEFGHIJ"


def test_the_model_that_takes_notes_sees_a_placeholder() -> None:
    call = ToolCall("c", "deploy", json.dumps({"token": TOKEN}))
    said = (
        Message("user", f"Remember: I deploy with the token {TOKEN} on Fridays."),
        Message("assistant", calls=(call,)),
        Message("tool", f"export DEPLOY_TOKEN={TOKEN}", answers="c"),
    )
    session = SessionId("ana", "k")
    for request in (
        ObserveRequest(session, said, (), 200),
        ItemsRequest(session, (), 1, 200, messages=said),
    ):
        prompt = prompt_of(request)
        assert "deploy with the token [secret]" in prompt.user
        assert TOKEN not in prompt.system + prompt.user


FILLING = (
    "We talked about the garden fence at length, its boards, its posts, and the paint that peels off.",
    "Then about the train timetable between the two towns, which changes in spring and again in autumn.",
    "After that we compared three kinds of bread flour, which mill grinds which, and how dough has to rest.",
)


def careless(request: Request) -> str | None:
    """A model that writes the token down, and what nobody said beside it."""
    if isinstance(request, ItemsRequest):
        summary = f"Ana uses the token {TOKEN} to deploy on Fridays"
        return json.dumps({"type": "skill", "summary": summary, "said_by": "user", "tags": [TOKEN]})
    if not any(TOKEN in m.text for m in getattr(request, "messages", ())):
        return None
    return f"user: deploys with the token {TOKEN} on Fridays\nuser: has /never/said/{TOKEN} and 98765431"


@pytest.mark.anyio
@pytest.mark.parametrize("model", [None, ScriptedModel(careless)], ids=["built-in", "careless"])
async def test_a_secret_gets_nowhere_but_into_the_messages(
    model: ScriptedModel | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    embedder = WordEmbedder()
    small = replace(
        onlooker.preset("default"),
        budget=4_000,
        observe_at=120,
        keep_recent=0,
        precompute_at=120,
        chunk_tokens=100,
        notes_folder=str(tmp_path / "notes"),
    )
    events: list[object] = []
    seen: dict[str, object] = {}
    async with onlooker.open_memory(":memory:", settings=small, model=model, embedder=embedder) as memory:
        memory.subscribe(events.append)
        session = memory.session("k", owner="ana")
        call = ToolCall("c", "deploy", json.dumps({"token": TOKEN}))
        await session.record(
            user(f"Remember that I always deploy with the token {TOKEN} on Fridays.", id="m1"),
            assistant("", calls=[call]),
            tool(f"export DEPLOY_TOKEN={TOKEN}", answers="c"),
            assistant("Done."),
        )
        for text in FILLING:
            await session.record(user(text), assistant("I see."))
        await session.settle()
        other = memory.session("k2", owner="ana")
        await other.record(user("Which token do I deploy with?"))
        call_tool = other.tools().call
        seen["notes"] = [note.text for note in await session.notes()]
        await session.end()
        seen["the answer of memory_save"] = await call_tool(
            "memory_save", {"summary": f"Ana keeps the password {TOKEN} in a safe", "tags": [TOKEN]}
        )
        seen["items"] = await memory.items.list("ana")
        await memory.search(TOKEN, owner="ana")
        seen["search"] = [hit.snippet for hit in await memory.search("deploy token", owner="ana")]
        seen["the answer of memory_search"] = await call_tool("memory_search", {"query": "deploy token"})
        seen["the system prompt"] = (await session.context(system="S")).system
        seen["recalled"] = (await other.context(system="S", question="Which token do I deploy with?")).end
        await memory.files.sync()
        masked = await memory.storage.masked(owner="ana")
    seen["files"] = [path.read_text() for path in (tmp_path / "notes").rglob("*.md")]
    seen["the embedder"] = embedder.received
    seen["events"] = [event for event in events if not isinstance(event, Recorded)]  # these are the messages
    seen["logs"] = caplog.text
    assert not [place for place, shown in seen.items() if TOKEN in repr(shown)]
    assert "[secret]" in repr(seen["notes"])
    assert "[secret]" in repr(seen["recalled"])
    assert masked == {"token": 3}


@pytest.mark.anyio
async def test_a_report_says_what_is_masked_by_kind_and_number() -> None:
    async with onlooker.open_memory(":memory:") as memory:
        session = memory.session("k", owner="ana")
        await session.record(user(f"My card is 4111 1111 1111 1111, my token {TOKEN}."))
        await session.record(user("And DB_PASS=hunter2hunter2, and the card 5500-0000-0000-0004."))
        await memory.session("k", owner="ben").record(user("Nothing."))
        found = await memory.storage.masked(owner="ana")
        assert sum(found.values()) == 4
        assert found["card number"] == 2
        assert await memory.storage.masked() == found
        assert await memory.storage.masked(owner="ana", session="k") == found
        assert await memory.storage.masked(owner="ben") == {}


# What people write around a secret: the request that is kept in their words, a fact about themselves, an
# instruction, a result of a tool.
AROUND = (
    "Here is the config: {} and the port is 8080. Can you fix the deployment with it?",
    "I live in Oslo and I work as a nurse, {} is what I use every day.",
    "Always use {} when you deploy.",
    "{}",
)


@pytest.mark.anyio
@pytest.mark.parametrize("role", ["user", "tool"])
async def test_no_secret_of_any_format_is_in_a_note_an_item_or_the_memory_section(role: str) -> None:
    seen: set[str] = set()
    small = replace(
        onlooker.preset("default"), observe_at=30, keep_recent=0, precompute_at=30, chunk_tokens=30
    )
    async with onlooker.open_memory(":memory:", settings=small) as memory:
        for number, (name, (line, part)) in enumerate(FORMATS.items()):
            session = memory.session(f"k{number}", owner=f"o{number}")
            for around in AROUND:
                text = around.format(line)
                call = ToolCall(f"c{around[:1]}", "read_config", "{}")
                if role == "user":
                    await session.record(user(text))
                else:
                    await session.record(assistant("", calls=[call]), tool(text, answers=call.id))
                await session.record(assistant("I see."))
                await session.settle()
            await session.end()
            notes = [note.text for note in await session.notes()]
            items = [item.summary for item in await memory.items.list(f"o{number}")]
            assert notes
            context = await session.context()
            if any(is_seen(part, text) for text in (*notes, *items, context.system)):
                seen.add(name)
    assert seen == set()
