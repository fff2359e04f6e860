"""What the server adds: the proxy beside the same request sent directly, and many sessions at once.

    python bench/server.py             the proxy at 1,000 messages of history, and 50 sessions of 20 turns
    python bench/server.py --full      200 sessions of 50 turns

The server is a process of its own (`onlooker serve`), and so is the provider, which answers at once. "Added
before the upstream call" is what the provider saw: the time from the client's send to the request's arrival,
less the same without the proxy. On a busy machine that says more about the machine: the CPU time that the
server took for a turn, its answer included, says more about the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2

HISTORY = 1_000
REQUESTS = 200
BODY = {"model": "gpt-5-mini"}
ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5-mini",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Noted."}}
        ],
    }
).encode()


def provide(connection: Any) -> None:
    """A provider that answers at once, with the time at which the request was there."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            arrived = time.monotonic()
            lines = head.lower().split(b"\r\n")
            length = next(
                (int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")), 0
            )
            await reader.readexactly(length)
            start = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-arrived: {arrived}\r\n"
            writer.write(f"{start}content-length: {len(ANSWER)}\r\n\r\n".encode() + ANSWER)
            await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        connection.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def said(number: int) -> dict[str, str]:
    role = "user" if number % 2 == 0 else "assistant"
    text = (
        f"Parcel ZQ{number:05}K went from Oslo to hall {number % 90} in the morning, and Ana signed for it."
    )
    return {"role": role, "content": text if role == "user" else "Noted."}


def share(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def report(name: str, seconds: list[float]) -> None:
    print(f"{name:44} p50 {share(seconds, 0.5) * 1e3:7.2f} ms   p99 {share(seconds, 0.99) * 1e3:7.2f} ms")


async def ask(
    client: httpx2.AsyncClient, url: str, history: list[Any], **headers: str
) -> tuple[float, float]:
    """How long it took until the request was at the provider, and until the answer was here."""
    began = time.monotonic()
    answer = await client.post(url, json=BODY | {"messages": history}, headers=headers)
    took = time.monotonic() - began
    answer.raise_for_status()
    assert answer.headers.get("x-onlooker-memory", "on") == "on", answer.headers
    return float(answer.headers["x-arrived"]) - began, took


def cpu_seconds(process: int) -> tuple[float, float]:
    """The CPU time of a process so far: of the thread that serves, and of all the others. Linux says it."""
    found = {
        task.name: int((task / "schedstat").read_text().split()[0]) / 1e9
        for task in Path(f"/proc/{process}/task").glob("*")
    }
    serving = found.pop(str(process), 0.0)
    return serving, sum(found.values())


async def measure_proxy(server: str, provider: str, process: int, named: bool) -> None:
    """A conversation that goes on at 1,000 messages, through the proxy and directly, turn about."""
    history: list[Any] = [said(n) for n in range(HISTORY)]
    headers = {"x-onlooker-session": "bench"} if named else {}
    through, direct = list[tuple[float, float]](), list[tuple[float, float]]()
    serving, others = list[float](), list[float]()
    async with httpx2.AsyncClient(timeout=120) as client:
        await ask(client, f"{server}/openai/v1/chat/completions", [*history, said(HISTORY)], **headers)
        for n in range(REQUESTS):
            history += [said(HISTORY + 2 * n), {"role": "assistant", "content": "Noted."}]
            sent = [*history, said(HISTORY + 2 * n + 2)]
            direct.append(await ask(client, f"{provider}/v1/chat/completions", sent))
            before = cpu_seconds(process)
            through.append(await ask(client, f"{server}/openai/v1/chat/completions", sent, **headers))
            after = cpu_seconds(process)
            serving.append(after[0] - before[0])
            others.append(after[1] - before[1])
    name = "named by a header" if named else "known by its history"
    print(f"{HISTORY} messages of history, {name}, {REQUESTS} turns")
    report("  at the provider, directly", [a for a, _ in direct])
    report("  at the provider, through the proxy", [a for a, _ in through])
    report(
        "  added before the upstream call", [a - b for (a, _), (b, _) in zip(through, direct, strict=True)]
    )
    report("  answer, directly", [b for _, b in direct])
    report("  answer, through the proxy", [b for _, b in through])
    report("  CPU of the server, the thread that serves", serving)
    report("  CPU of the server, its other threads", others)


async def measure_load(server: str, sessions: int, turns: int) -> None:
    """Many conversations at once, through the proxy. Every message must be in its own session afterwards."""
    seconds = list[float]()

    async def converse(client: httpx2.AsyncClient, number: int) -> None:
        history = list[Any]()
        headers = {"x-onlooker-session": f"load-{number}"}
        for turn in range(turns):
            history.append(
                {"role": "user", "content": f"Session {number} says that code {number}-{turn} is in use."}
            )
            _, took = await ask(client, f"{server}/openai/v1/chat/completions", history, **headers)
            seconds.append(took)
            history.append({"role": "assistant", "content": "Noted."})

    limits = httpx2.Limits(max_connections=64)
    async with httpx2.AsyncClient(timeout=600, limits=limits) as client:
        began = time.monotonic()
        await asyncio.gather(*(converse(client, n) for n in range(sessions)))
        took = time.monotonic() - began
        wrong = 0
        for number in range(sessions):
            found = (await client.get(f"{server}/v1/sessions/load-{number}/messages?limit=1000")).json()
            users = [m["text"] for m in found["messages"] if m["role"] == "user"]
            wrong += users != [
                f"Session {number} says that code {number}-{t} is in use." for t in range(turns)
            ]
    print(
        f"{sessions} sessions of {turns} turns at once: {sessions * turns / took:.0f} turns/s, {wrong} wrong"
    )
    report("  a turn, queueing included", seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="200 sessions of 50 turns")
    full: bool = parser.parse_args().full
    ours, theirs = multiprocessing.Pipe()
    providing = multiprocessing.Process(target=provide, args=(theirs,), daemon=True)
    providing.start()
    provider = f"http://127.0.0.1:{ours.recv()}"
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "onlooker",
            "serve",
            "--port",
            "0",
            "--upstream",
            f"openai={provider}",
        ]
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, "--db", str(Path(folder) / "bench.db")], stdout=subprocess.PIPE, text=True, cwd=folder
        )
        assert process.stdout is not None
        try:
            server = process.stdout.readline().split()[-1]
            print(f"started in {time.monotonic() - began:.2f} s")
            asyncio.run(measure_proxy(server, provider, process.pid, named=True))
            asyncio.run(measure_proxy(server, provider, process.pid, named=False))
            asyncio.run(measure_load(server, *((200, 50) if full else (50, 20))))
        finally:
            process.terminate()
            process.wait(60)
            process.stdout.close()
            providing.terminate()


if __name__ == "__main__":
    main()
