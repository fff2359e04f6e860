"""`export`, `import`, `backup`, `restore`, and `migrate` from file to file."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.acceptance.command_line import call, make_database, run, write_transcript
from tests.acceptance.moves import STILL, exported, fill, killed_in_the_middle, many_sessions, record

import onlooker
from onlooker import blocking
from onlooker.domain.errors import StoreError
from onlooker.domain.items import Item, ItemChange
from onlooker.domain.messages import SessionId
from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.testing.store_contract.case import ANA, NOW
from onlooker.types import MigrationProgress

PASSPHRASE = "correct horse battery staple"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_database(tmp_path_factory.mktemp("made"), "demo", "other", messages=70)


@pytest.fixture
def db(made: Path, tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    path.write_bytes(made.read_bytes())
    return path


@pytest.fixture
def src(tmp_path: Path) -> Path:
    path = tmp_path / "src.db"
    asyncio.run(fill(path))
    return path


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def sessions_in(path: Path) -> int:
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM sessions").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet
        return 0


def change(path: Path, job: Callable[[Store], Awaitable[object]]) -> None:
    async def run() -> None:
        store = SqliteStore(path)
        await store.open()
        try:
            await job(store)
        finally:
            await store.close()

    asyncio.run(run())


def save(path: Path, item: Item) -> None:
    change(path, lambda store: store.change_items(ItemChange(item.owner, NOW, add=(item,))))


def spent(path: Path) -> list[float | None]:
    with blocking.open_memory(path, settings=STILL) as memory:
        return [usage.cost for usage in memory.usage()]


# ------------------------------------------------------------------------------------ export, import, backup


def test_a_database_goes_through_a_file_and_comes_out_the_same(db: Path, tmp_path: Path) -> None:
    done = call("export", tmp_path / "all.jsonl", "--db", db, "--json")
    assert done.json["rows"] > 100
    done = call("import", tmp_path / "all.jsonl", "--all-owners", "--db", tmp_path / "new.db", "--json")
    assert done.json["rows"]["session"] == 2
    assert done.json["problems"] == []
    assert call("export", tmp_path / "again.jsonl", "--db", tmp_path / "new.db").code == 0
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "all.jsonl").read_bytes()
    context = [call("context", "--db", d, "--session", "demo").out for d in (db, tmp_path / "new.db")]
    assert context[0] == context[1]


def test_it_goes_through_a_pipe(db: Path, tmp_path: Path) -> None:
    out = run("export", "-", "--db", db, "--session", "demo", cwd=tmp_path)
    assert out.code == 0, out.err
    assert out.out.splitlines()[0] == '{"kind":"onlooker","format":1}'
    done = run("import", "-", "--all-owners", "--db", tmp_path / "new.db", cwd=tmp_path, input=out.out)
    assert done.code == 0, done.err
    assert "Imported 1 session:" in done.err
    again = run("export", "-", "--db", tmp_path / "new.db", "--session", "demo", cwd=tmp_path)
    assert again.out == out.out


@pytest.mark.parametrize("command", ["export", "status"])
def test_the_help_says_that_a_session_is_only_a_part(command: str) -> None:
    shown = call(command, "--help").out
    assert "Only this session." in shown
    assert "Only this owner." in shown


def test_what_cannot_be_exported_or_imported_is_said_clearly(db: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.jsonl"
    assert call("export", target, "--db", db).code == 0
    for arguments, code, says in (
        (["export", target, "--db", db], 1, "exists already"),
        (["export", tmp_path / "x.jsonl", "--db", db, "--owner", "nobody"], 1, "nothing is stored"),
        (["export", tmp_path / "x.jsonl", "--db", db, "--session", "nobody"], 1, "no session 'nobody'"),
        (["export", tmp_path / "x.jsonl", "--db", tmp_path / "no.db"], 1, "no such database"),
        (
            ["import", target, "--all-owners", "--db", db],
            1,
            "exists already; `replace` (--replace) replaces it",
        ),
        (["import", tmp_path / "no.jsonl", "--db", db], 1, "cannot be read"),
        (["import", db, "--db", tmp_path / "y.db"], 1, "not an Onlooker export"),
        (["import", "--db", db], 2, "name a FILE"),
        (["import", target, "--journal", tmp_path, "--db", db], 2, "name a FILE"),
        (["import", "--journal", tmp_path / "no", "--db", db], 1, "no such folder"),
    ):
        done = call(*arguments)
        assert done.code == code, (arguments, done.err)
        assert says in done.err, done.err
    assert not (tmp_path / "y.db").exists()
    assert call("import", target, "--all-owners", "--db", db, "--replace").code == 0


def test_a_database_is_built_from_a_journal_with_its_bad_lines_reported(made: Path, tmp_path: Path) -> None:
    config = tmp_path / "onlooker.toml"
    config.write_text(f'[onlooker]\nenabled = true\njournal = "{tmp_path / "journal"}"\nbudget = 2000\n')
    transcript = made.parent / "begin.jsonl"
    done = call("replay", transcript, "--db", tmp_path / "a.db", "--config", config, "--json")
    assert done.code == 0, done.err
    file = next((tmp_path / "journal").glob("session-*"))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], b"nonsense\n", *lines[1:]]))
    done = call("import", "--journal", tmp_path / "journal", "--all-owners", "--db", tmp_path / "b.db")
    assert done.code == 0, done.err
    assert f"{file.name}, line 2: not JSON" in done.err
    context = [call("context", "--db", tmp_path / name).out for name in ("a.db", "b.db")]
    assert context[0] == context[1]


def test_an_import_that_fails_leaves_no_database_behind(made: Path, tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(b"\x00\xff junk")
    assert call("export", tmp_path / "all.jsonl", "--db", made).code == 0
    (tmp_path / "cut.jsonl").write_bytes((tmp_path / "all.jsonl").read_bytes()[:-200])
    for arguments in (["no"], ["junk"], ["."], ["cut.jsonl"], ["--journal", "no"]):
        done = call(
            "import", *(tmp_path / a if a[0] != "-" else a for a in arguments), "--db", tmp_path / "n.db"
        )
        assert done.code != 0
        assert not list(tmp_path.glob("n.db*")), arguments
    # What was there before stays, empty or not.
    with blocking.open_memory(tmp_path / "n.db"):
        pass
    assert call("import", tmp_path / "junk", "--db", tmp_path / "n.db").code == 1
    assert call("sessions", "--db", tmp_path / "n.db", "--json").json == []


def test_a_new_file_may_be_in_a_new_folder(db: Path, tmp_path: Path) -> None:
    transcript = write_transcript(tmp_path / "t.jsonl", [{"role": "user", "content": "I moved to Oslo."}])
    for n, arguments in enumerate((["export"], ["backup"], ["migrate", db])):
        new = tmp_path / f"new{n}" / "folder" / "file"
        done = call(*arguments, new, *(["--db", db] if len(arguments) == 1 else []))
        assert done.code == 0, done.err
        assert new.stat().st_size
    context = tmp_path / "new" / "context.txt"
    assert call("replay", transcript, "--db", tmp_path / "r.db", "-o", context).code == 0
    assert "I moved to Oslo." in context.read_text()


def test_a_backup_is_made_and_put_back(db: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(db)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM messages LIMIT 1").fetchall()
        assert call("backup", copy, "--db", db, "--json").json["bytes"] > 10_000
        in_use = call("restore", copy, "--db", db, "--replace", "--yes")
        assert in_use.code == 1
        assert "in use" in in_use.err
    assert call("backup", copy, "--db", db).code == 1
    call("clear", "--db", db, "--session", "demo", "--messages", "--yes")
    refused = call("restore", copy, "--db", db)
    assert (refused.code, "add --replace to replace it" in refused.err) == (1, True)
    declined = call("restore", copy, "--db", db, "--replace", input="")
    assert declined.code == 1
    assert len(call("sessions", "--db", db, "--json").json) == 1
    assert call("restore", copy, "--db", db, "--replace", "--yes").code == 0
    assert call("doctor", "--db", db).code == 0
    assert len(call("sessions", "--db", db, "--json").json) == 2
    assert call("restore", tmp_path / "nothing.db", "--db", tmp_path / "x.db").code == 1


# ------------------------------------------------------------------------------------ migrate: everything


@pytest.mark.req(42)
def test_everything_comes_along_and_the_source_is_not_written_to(src: Path, tmp_path: Path) -> None:
    before = src.read_bytes()
    done = call("migrate", src, tmp_path / "dst.db", "--json")
    assert done.code == 0, done.err
    assert (done.json["sessions"], done.json["copied"], done.json["refused"]) == (3, 3, [])
    assert done.json["rows"]["message"] == 19
    assert done.json["rows"]["version"] == 2
    assert src.read_bytes() == before
    assert exported(src, tmp_path / "a") == exported(tmp_path / "dst.db", tmp_path / "b")


@pytest.mark.req(44)
def test_the_prompt_of_a_moved_session_is_the_same(db: Path, tmp_path: Path) -> None:
    assert call("migrate", db, tmp_path / "dst.db").code == 0
    for session in ("demo", "other"):
        prompts = [call("context", "--db", d, "--session", session).out for d in (db, tmp_path / "dst.db")]
        assert "## Conversation Memory" in prompts[0]
        assert prompts[0] == prompts[1]


def test_what_was_moved_is_found_at_once(db: Path, tmp_path: Path) -> None:
    dst = tmp_path / "dst.db"
    assert call("migrate", db, dst).code == 0
    found = [call("search", "Oslo", "--db", d, "--json").json for d in (db, dst)]
    assert found[0]
    assert found[0] == found[1]
    with closing(sqlite3.connect(dst)) as connection:
        assert connection.execute("SELECT count(*) FROM mentions").fetchone()[0]


def test_as_a_process_it_says_how_far_it_is_in_plain_lines(db: Path, tmp_path: Path) -> None:
    done = run("migrate", db, tmp_path / "dst.db", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out == ""
    assert done.err.splitlines()[:2] == ["copying: 2 of 2 sessions", "verifying: 2 of 2 sessions"]
    assert "Copied 2 of 2 sessions." in done.err
    assert "\x1b" not in done.err
    assert run("migrate", db, tmp_path / "dst.db", "--quiet", cwd=tmp_path).err == ""


def test_it_works_without_await(src: Path, tmp_path: Path) -> None:
    steps: list[MigrationProgress] = []
    moved = blocking.migrate(src, tmp_path / "dst.db", progress=steps.append, batch=1)
    assert moved.complete
    assert moved.copied == 3
    assert [step.done for step in steps if step.phase == "verifying"][-1] == 3


# ------------------------------------------------------------------------------------ encrypted


@pytest.mark.req(103)
def test_a_plain_database_becomes_an_encrypted_one_and_plain_again(src: Path, tmp_path: Path) -> None:
    key, dst, back = tmp_path / "key", tmp_path / "dst.db", tmp_path / "back.db"
    key.write_text(PASSPHRASE)
    assert call("migrate", src, dst, "--new-key-file", key).code == 0
    assert b"SQLite format 3" not in dst.read_bytes()
    assert exported(dst, tmp_path / "a", key=PASSPHRASE) == exported(src, tmp_path / "b")
    # Whoever writes in plain what was encrypted is asked first.
    done = call("migrate", dst, back, "--key-file", key, input="n\n")
    assert done.code == 1
    assert "nothing was copied" in done.err
    assert not back.exists()
    assert call("migrate", dst, back, "--key-file", key, "--yes").code == 0
    assert exported(back, tmp_path / "a") == exported(src, tmp_path / "b")
    # Each side with a key of its own.
    done = call("migrate", dst, tmp_path / "third.db", ONLOOKER_KEY=PASSPHRASE, ONLOOKER_NEW_KEY="5d" * 32)
    assert done.code == 0, done.err
    assert exported(tmp_path / "third.db", tmp_path / "a", key="5d" * 32) == exported(src, tmp_path / "b")


def test_a_wrong_key_is_a_clear_error_on_either_side(src: Path, tmp_path: Path) -> None:
    dst, plain = tmp_path / "dst.db", tmp_path / "plain.db"
    assert call("migrate", src, dst, ONLOOKER_NEW_KEY=PASSPHRASE).code == 0
    wrong = call("migrate", dst, plain, "--yes", ONLOOKER_KEY="another")
    assert wrong.code == 1
    assert f"{dst}: the key does not open it" in wrong.err
    assert not plain.exists()
    wrong = call("migrate", src, dst, ONLOOKER_NEW_KEY="another")
    assert wrong.code == 1
    assert "the key does not open it" in wrong.err
    assert "--new-key-file" in wrong.err
    missing = call("migrate", src, dst)
    assert missing.code == 1
    assert "an encrypted one" in missing.err
    assert "--new-key-file" in missing.err


# ------------------------------------------------------------------------------------ again


@pytest.mark.req(43)
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_the_middle_it_goes_on_where_it_was(tmp_path: Path, by: signal.Signals) -> None:
    src, dst = tmp_path / "many.db", tmp_path / "dst.db"
    many_sessions(src, 150)
    there = killed_in_the_middle(src, str(dst), lambda: sessions_in(dst), 20, tmp_path, by=by)
    assert 20 <= there < 150
    done = call("migrate", src, dst, "--json")
    assert done.code == 0, done.err
    assert (done.json["same"], done.json["copied"], done.json["updated"]) == (there, 150 - there, 0)
    assert exported(dst, tmp_path / "a") == exported(src, tmp_path / "b")


def test_what_went_on_in_the_source_is_copied_anew(src: Path, tmp_path: Path) -> None:
    dst, fresh = tmp_path / "dst.db", ANA._replace(key="fresh")
    record(src, fresh, "f1")
    assert call("migrate", src, dst).code == 0
    record(src, fresh, "f2")
    record(src, ANA._replace(key="newer"), "n1")
    execute(src, "UPDATE items SET uses = uses + 1 WHERE id = 'i1'")
    preview = call("migrate", src, dst, "--dry-run", "--json").json
    done = call("migrate", src, dst, "--json")
    assert done.code == 0, done.err
    for told in (preview, done.json):
        assert (told["copied"], told["updated"], told["same"], told["refused"]) == (1, 1, 3, [])
    with blocking.open_memory(dst, settings=STILL) as memory:
        assert [m.id for m in memory.session("fresh", owner="ana").messages()] == ["f1", "f2"]
        assert [m.id for m in memory.session("newer", owner="ana").messages()] == ["n1"]
        assert {item.id: item.uses for item in memory.items.list("ana")}["i1"] == 1
    assert call("migrate", src, dst, "--json").json["same"] == 5


def test_what_was_forgotten_in_the_source_is_forgotten_in_the_target(src: Path, tmp_path: Path) -> None:
    dst, fresh = tmp_path / "dst.db", ANA._replace(key="fresh")
    record(src, fresh, "f1", "f2", "f3")
    assert call("migrate", src, dst).code == 0
    assert call("forget", "f2", "--session", "fresh", "--db", src, "--yes").code == 0
    assert call("migrate", src, dst, "--json").json["updated"] == 1
    with blocking.open_memory(dst, settings=STILL) as memory:
        assert [m.id for m in memory.session("fresh", owner="ana").messages()] == ["f1", "f3"]


def test_items_made_of_what_was_forgotten_are_forgotten_in_the_target(src: Path, tmp_path: Path) -> None:
    dst, fresh = tmp_path / "dst.db", ANA._replace(key="fresh")
    record(src, fresh, "f1", "f2")
    save(src, Item("ana", "made", "event", "said in f2", NOW, session="fresh", sources=("f2",)))
    assert call("migrate", src, dst).code == 0
    by_hand = Item("ana", "saved", "event", "saved in the target", NOW, session="fresh")
    save(dst, by_hand)
    assert call("forget", "f2", "--session", "fresh", "--db", src, "--yes").code == 0
    done = call("migrate", src, dst)
    assert done.code == 0, done.err
    assert "Removed 1 item that" in done.err
    with blocking.open_memory(dst, settings=STILL) as memory:
        there = {item.id for item in memory.items.list("ana")}
    assert "saved" in there
    assert "made" not in there
    assert call("migrate", src, dst, "--json").json["forgotten_items"] == 0


def test_what_a_deleted_session_or_owner_cost_is_counted_once(tmp_path: Path) -> None:
    src, dst = tmp_path / "src.db", tmp_path / "dst.db"
    many_sessions(src, 14)
    assert call("migrate", src, dst).code == 0
    change(src, lambda store: store.delete_session(SessionId("owner 0", "session 0")))
    change(dst, lambda store: store.delete_session(SessionId("owner 3", "session 3")))
    for gone in ("owner 1", "owner 2"):
        done = call("migrate", src, dst, "--json")
        assert done.code == 0, done.err
        assert spent(dst) == spent(src) == [0.25] * 14
        change(src, lambda store, owner=gone: store.forget_owner(owner))


def test_a_source_that_was_used_meanwhile_is_reported(src: Path, tmp_path: Path) -> None:
    def use(step: MigrationProgress) -> None:
        if step.phase == "verifying":
            change = "used_at = used_at + 1, prompt_version = prompt_version + 1"
            execute(src, f"UPDATE sessions SET {change} WHERE owner = 'ben'")

    moved = blocking.migrate(src, tmp_path / "dst.db", progress=use)
    assert moved.changed
    assert moved.complete
    again = blocking.migrate(src, tmp_path / "dst.db")
    assert (again.updated, again.same, again.changed) == (1, 2, False)


def test_a_dry_run_writes_nothing(src: Path, tmp_path: Path) -> None:
    done = call("migrate", src, tmp_path / "dst.db", "--dry-run")
    assert done.code == 0, done.err
    assert "Would copy 3 of 3 sessions." in done.err
    assert not (tmp_path / "dst.db").exists()


# ------------------------------------------------------------------------------------ other data


def test_other_sessions_of_the_target_stay(src: Path, tmp_path: Path) -> None:
    dst = tmp_path / "dst.db"
    many_sessions(dst, 5)
    done = call("migrate", src, dst, "--json")
    assert done.code == 0, done.err
    assert (done.json["copied"], done.json["others"]) == (3, 5)
    with blocking.open_memory(dst, settings=STILL) as memory:
        assert len(memory.sessions()) == 8
        assert len(memory.usage()) == 8
    assert call("migrate", src, dst, "--json").json["same"] == 3


def test_a_session_that_is_something_else_there_is_refused_and_the_others_come(
    src: Path, tmp_path: Path
) -> None:
    dst = tmp_path / "dst.db"
    with blocking.open_memory(dst) as memory:
        memory.session("telegram:7", owner="ben").record(onlooker.user("Ben's own words there", id="his"))
        assert memory.sessions()[0].messages == 1
    with blocking.open_memory(src) as memory:
        memory.session("telegram:7", owner="ben").record(onlooker.user("Something else", id="hers"))
    done = call("migrate", src, dst, "--json")
    assert done.code == 1
    assert done.json["refused"][0]["session"] == "telegram:7"
    assert "session 'telegram:7' of 'ben' not copied" in done.err
    assert "--replace" in done.err
    assert done.json["copied"] == 3
    with blocking.open_memory(dst) as memory:
        assert [m.id for m in memory.session("telegram:7", owner="ben").messages()] == ["his"]
    done = call("migrate", src, dst, "--replace", "--json")
    assert done.code == 0, done.err
    with blocking.open_memory(dst) as memory:
        assert [m.id for m in memory.session("telegram:7", owner="ben").messages()] == ["hers"]


def test_a_session_that_was_used_in_the_target_is_refused(src: Path, tmp_path: Path) -> None:
    dst = tmp_path / "dst.db"
    assert call("migrate", src, dst).code == 0
    execute(
        dst, "UPDATE sessions SET used_at = used_at + 1000000, last_seq = last_seq + 1 WHERE owner = 'ben'"
    )
    for more in ([], ["--dry-run"]):
        done = call("migrate", src, dst, *more)
        assert done.code == 1
        assert "of 'ben' not copied: it was used in the target" in done.err


def test_an_item_that_went_on_in_the_target_stays_as_it_is_there(src: Path, tmp_path: Path) -> None:
    dst = tmp_path / "dst.db"
    assert call("migrate", src, dst).code == 0
    execute(dst, "UPDATE items SET uses = 9 WHERE id = 'i1'")
    done = call("migrate", src, dst, "--json")
    assert done.code == 0, done.err
    assert done.json["kept_items"] == 1
    assert call("migrate", src, dst, "--replace", "--json").json["kept_items"] == 0
    assert exported(dst, tmp_path / "a") == exported(src, tmp_path / "b")


# ------------------------------------------------------------------------------------ verified


def test_a_message_that_was_tampered_with_is_told_by_name(src: Path, tmp_path: Path) -> None:
    dst = tmp_path / "dst.db"
    assert call("migrate", src, dst).code == 0
    execute(dst, "UPDATE messages SET text = 'tampered' WHERE id = 'm3'")
    done = call("migrate", src, dst)
    assert done.code == 1
    assert "of 'ana' not copied: message 'm3' is different in the target" in done.err
    assert call("migrate", src, dst, "--replace").code == 0
    assert call("migrate", src, dst, "--json").json["same"] == 3


CALL = "sid, owner, model, purpose, input_tokens, output_tokens, verdict, at, spent_at, cost"
TWICE = f"INSERT INTO usage ({CALL}) SELECT {CALL} FROM usage WHERE cost = 0.5"


@pytest.mark.parametrize(
    ("phase", "statement", "says"),
    [
        (
            "copying",
            "UPDATE messages SET text = 'tampered' WHERE id = 'm3'",
            "as many rows, but with different content",
        ),
        ("copying", "DELETE FROM notes WHERE id = 'o5'", "of 'ana': 4 of 5 note rows"),
        ("copying", "DELETE FROM sessions WHERE owner = 'ben'", "of 'ben': it is missing"),
        ("verifying", "UPDATE items SET summary = 'other' WHERE id = 'i1'", "items: 1 missing or different"),
        ("verifying", "DELETE FROM usage WHERE cost = 0.5", "usage: 1 missing or different"),
        ("verifying", TWICE, "usage: 1 stored more than once"),
    ],
)
def test_a_target_that_does_not_hold_what_was_copied_is_an_error(
    src: Path, tmp_path: Path, phase: str, statement: str, says: str
) -> None:
    dst = tmp_path / "dst.db"

    def spoil(step: MigrationProgress) -> None:
        if step.phase == phase and step.done == step.total:
            execute(dst, statement)

    with pytest.raises(StoreError, match=says) as error:
        blocking.migrate(src, dst, progress=spoil)
    assert "Run the migration again" in str(error.value)


def test_what_cannot_be_moved_is_said_clearly(src: Path, tmp_path: Path) -> None:
    old, foreign = tmp_path / "old.db", tmp_path / "foreign.db"
    old.write_bytes(src.read_bytes())
    execute(old, "PRAGMA user_version = 0")
    execute(foreign, "CREATE TABLE t (x)")
    (tmp_path / "link.db").hardlink_to(src)
    for arguments, code, says in (
        ([tmp_path / "no.db", tmp_path / "dst.db"], 1, "nothing is stored there"),
        ([src, src], 2, "must be a different store"),
        ([src, tmp_path / "link.db"], 2, "must be a different store"),
        ([src, ":memory:"], 2, "name a file"),
        ([src, "mysql://nowhere"], 2, "must be a file"),
        ([old, tmp_path / "dst.db"], 1, "of an earlier version of onlooker (0;"),
        ([foreign, tmp_path / "dst.db"], 1, "another application"),
        ([src, tmp_path / "dst.db", "--batch", "0"], 2, "--batch"),
    ):
        done = call("migrate", *arguments)
        assert done.code == code, (arguments, done.err)
        assert says in done.err, done.err
    assert not (tmp_path / "dst.db").exists()
