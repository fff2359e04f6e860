"""How long the inspector's pages take on a long session: `python bench/inspector.py [--messages N]`, and with
`--store postgres` on a PostgreSQL server that it starts itself.

The session has its messages, an observation for every fifty of them, and a reflection that condenses forty
of those and the reflection before it, as an agent's would have after months. Each page is asked for seven
times: how long the first took, the median of the others, and the median of the CPU time that they used,
which says more on a busy machine. The goal is 200 ms for every page, whatever the length of the session:
compare with `--messages 1000`. `--keep` builds the database once.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import httpx2

import onlooker
from _places import PLACES
from _talk import Talk
from onlooker.domain.messages import SessionId
from onlooker.domain.notes import Commit, Guard, Note, Usage
from onlooker.policy.tokens import estimator
from onlooker.ports import Store
from onlooker.server.app import make_app, warm_up

SESSION = SessionId("ana", "telegram:42")
NEVER = 1 << 62
EACH, TOGETHER = 50, 40
AGAIN = 7
# Of a reflection: memory stays within its budget.
MOST_LINES = 250


async def fill(store: Store, messages: int) -> None:
    """Record a conversation of messages three minutes apart, with notes on all but the newest."""
    count, talk = estimator("default"), Talk()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    pending: list[Note] = []
    for start in range(0, messages, EACH):
        said = [
            replace(
                m, id=f"m{start + n}", at=at + timedelta(minutes=3 * (start + n)), tokens=count.message(m)
            )
            for n, m in enumerate(talk.many(min(EACH, messages - start)), 1)
        ]
        done = await store.append(SESSION, said, due_tokens=NEVER, now=said[-1].at or at)
        first, last = start + 1, start + len(said)
        if last >= messages:
            break
        lines = [f"{m.speaker}: {m.text[:80]}" for m in said[::5]]
        text = "\n".join([f"## {said[0].at:%Y-%m-%d}", *lines])
        ids, made = tuple(m.id for m in said), said[-1].at or at
        note = Note(f"obs_{first:09}", 0, first, last, text, count.text(text), made, ids)
        guard = Guard(done.progress.frontier, done.progress.revision)
        change = Commit(guard, add=(note,), frontier=last, watermark=last, tail_start=last + 1, at=made)
        await store.commit(SESSION, change)
        pending.append(note)
        if len(pending) == TOGETHER:
            lines = [line for n in pending for line in n.text.splitlines()[:3]]
            text, names = "\n".join(lines[-MOST_LINES:]), tuple(n.id for n in pending)
            generation = pending[0].generation + 1
            whole = Note(f"ref_{first:09}", generation, 1, last, text, count.text(text), made, names)
            guard = Guard(last, done.progress.revision)
            await store.commit(SESSION, Commit(guard, add=(whole,), supersede=names, at=made))
            pending = [whole]
    while await store.index(SESSION, limit=5_000):
        pass


async def measure(memory: onlooker.Memory, messages: int) -> None:
    app = make_app(memory)
    base = f"/inspect/sessions/{SESSION.key}"
    notes = await memory.store.notes(SESSION)
    pages = {
        "sessions": "/",
        "conversation, newest": base,
        "conversation, in the middle": f"{base}?to={messages // 2}",
        "what the model will see": f"{base}/prompt?words=What+did+Ana+say+about+the+invoice",
        "notes": f"{base}/notes",
        "a note with its source": f"{base}/notes?note={notes[-1].id}",
        "a reflection with its source": f"{base}/notes?note={notes[0].id}",
        "notes as of the middle": f"{base}/notes?then={messages // 2}",
        "chart (loaded after the page)": f"{base}/timeline",
        "search, a value": "/inspect/search?q=88-5001",
        "search, words that every third message has": "/inspect/search?q=invoice+delivery",
        "items": "/inspect/items",
        "cost": "/inspect/cost",
        "health": "/inspect/health",
        "settings": "/inspect/settings",
    }
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=600) as http,
    ):
        await warm_up()
        print(f"{'page':42} {'first':>9} {'then':>9} {'CPU':>9} {'bytes':>9}")
        for name, path in pages.items():
            joined = "&" if "?" in path else "?"
            took: list[float] = []
            used: list[float] = []
            size = 0
            for _ in range(AGAIN):
                began, worked = time.perf_counter(), time.process_time()
                answer = await http.get(f"{path}{joined}owner={SESSION.owner}")
                took.append((time.perf_counter() - began) * 1000)
                used.append((time.process_time() - worked) * 1000)
                answer.raise_for_status()
                size = len(answer.content)
            print(
                f"{name:42} {took[0]:6.0f} ms {median(took[1:]):6.0f} ms {median(used[1:]):6.0f} ms {size:9,}"
            )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--store", choices=PLACES, default="sqlite")
    parser.add_argument("--keep", type=Path, help="keep the SQLite database in this file, or use it")
    given = parser.parse_args()
    with PLACES[given.store](Path(tempfile.gettempdir())) as place:
        filled = given.keep and given.keep.exists()
        memory = onlooker.open_memory(given.keep or place.url, budget=16_000)
        await memory.store.open()
        if not filled:
            began = time.perf_counter()
            await fill(memory.store, given.messages)
            for hours in range(given.messages // EACH):
                at = datetime.now(UTC) - timedelta(hours=hours)
                used = Usage("anthropic:claude-haiku-4-5", "observe", 4_000, 500, "accepted", at, 0.005)
                await memory.store.record_usage(SESSION, used)
            if not given.keep:
                place.rest()
            took = time.perf_counter() - began
            print(f"{place.name}: {given.messages:,} messages recorded and noted in {took:.0f} s")
        await measure(memory, given.messages)


if __name__ == "__main__":
    asyncio.run(main())
