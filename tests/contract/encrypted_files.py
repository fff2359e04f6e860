"""Opening an encrypted store for the length of a block, planting words wherever one keeps text, and looking
into every byte that it leaves."""

from __future__ import annotations

import os
import random
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Event, Thread

from onlooker.domain.items import Item, ItemChange
from onlooker.domain.notes import Commit, Extraction, Guard, Usage
from onlooker.ports import Store
from onlooker.stores.sqlite import SqliteStore
from onlooker.stores.sqlite.key import Key
from onlooker.testing.store_contract.case import ANA, NEVER, NOW, ids, note, said
from onlooker.types import SessionId, ToolCall

HEX = "5d" * 32
RAW = Key(HEX)
OTHER = Key("a7" * 32)


@asynccontextmanager
async def opened(path: Path, key: Key | None = RAW) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(path, key=key)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def record(store: Store, *idents: str) -> None:
    await store.append(ANA, [said(i) for i in idents], due_tokens=NEVER, now=NOW)


async def recorded(path: Path, key: Key | None = RAW) -> list[str]:
    async with opened(path, key) as store:
        return ids(await store.messages(ANA))


def bytes_of(folder: Path) -> Iterator[bytes]:
    """Every file under the folder, and those of this process that have a place there but no name any more."""
    for file in folder.rglob("*"):
        try:
            if file.is_file():
                yield file.read_bytes()
        except FileNotFoundError:
            continue  # removed meanwhile
    if not Path("/proc/self/fd").is_dir():
        return
    for handle in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(handle).startswith(str(folder)) and "(deleted)" in os.readlink(handle):
                yield handle.read_bytes()
        except OSError:
            continue  # closed meanwhile


def found_in(folder: Path, words: list[str]) -> set[str]:
    """Which of the words stand anywhere in the folder."""
    everything = b"\n".join(bytes_of(folder)).lower()
    return {word for word in words if word.encode() in everything}


@contextmanager
def watched(folder: Path, words: list[str]) -> Generator[set[str]]:
    """Look all the time while something goes on; what was found."""
    found: set[str] = set()
    done = Event()

    def look() -> None:
        while not done.is_set():
            found.update(found_in(folder, words))
            time.sleep(0.002)

    watcher = Thread(target=look)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()
        found.update(found_in(folder, words))


# ------------------------------------------------------------------------------------ planting


def planted() -> list[str]:
    """Fifty strings that stand nowhere else; of small letters, as the index keeps its words."""
    chosen = random.Random(7)
    return ["".join(chosen.choices("bcdfghjklmnpqrstvwxz", k=14)) for _ in range(50)]


async def plant(store: Store, words: list[str]) -> None:
    """Put each into another place where a store keeps text."""
    take = iter(words)
    session = SessionId(next(take), next(take))
    await _plant_messages(store, session, [next(take) for _ in range(24)])
    text, model, kind, value, edited, by = (next(take) for _ in range(6))
    progress = (await store.sessions(owner=session.owner))[0].progress
    made = note("n1", 1, 1, sources=["m0"], text=f"[14:02] {text}", model=model)
    extracted = Extraction(kind, f'{{"a": "{value}"}}', "n1", session, (1,), NOW, NOW)
    guard = Guard(progress.frontier, progress.revision)
    commit = Commit(guard, add=(made,), frontier=1, watermark=1, tail_start=2, extractions=(extracted,))
    await store.commit(session, commit)
    await store.edit(session, "n1", edited, tokens=3, by=by, now=NOW)
    summary, tag = next(take), next(take)
    item = Item(session.owner, "i1", "knowledge", summary, NOW, tags=(tag,), session=session.key)
    await store.change_items(ItemChange(session.owner, NOW, add=(item,)))
    await store.compact(
        session, up_to=1, summary=said("sum", next(take), role="system"), archive=True, now=NOW
    )
    await store.set_value(next(take), next(take))
    cost = Usage(next(take), "observe", 10, 5, next(take), NOW, 0.25)
    await store.record_usage(session, cost)
    await store.link([(document, [next(take)]) for document in (await store.unlinked())[:1]])
    space = next(take)
    for rest in take:
        await store.append(session, [said(rest, f"{rest} again")], due_tokens=NEVER, now=NOW)
    while await store.index(session):
        pass
    await store.add_vectors(space, [(d, (1.0, 0.5)) for d in await store.without_vectors(space)])


async def _plant_messages(store: Store, session: SessionId, words: list[str]) -> None:
    names, texts, more, rest = words[:6], words[6:12], words[12:18], words[18:]
    messages = [
        said(f"m{n}" if n == 0 else f"m{n} {more[n]}", f"I like {texts[n]} here", name=names[n])
        for n in range(6)
    ]
    call = ToolCall(rest[0], rest[1], f'{{"{rest[2]}": "{rest[3]}"}}')
    messages.append(said("call", more[0], role="assistant", calls=(call,)))
    messages.append(said("result", f"{rest[4]} {rest[5]}", role="tool", answers=call.id))
    await store.append(session, messages, due_tokens=NEVER, now=NOW)
