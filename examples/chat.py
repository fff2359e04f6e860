"""A chat on the terminal: python examples/chat.py. End it with Ctrl-D, start it again, and it remembers.

The answers come from a stand-in. Put your model in `answer`: the rest is the whole program.
"""

from __future__ import annotations

import sys

import onlooker
from onlooker.blocking import open_memory


def answer(context: onlooker.Context) -> str:
    """Stand in for a model: repeat what the prompt knows of the question's words."""
    question = context.messages[-1].text
    words = {word.strip("?!.,").lower() for word in question.split() if len(word) > 4}
    said = [m.text for m in context.messages[:-1] if m.role == "user"]
    lines = [*context.memory.splitlines(), *said]
    known = [line for line in lines if words & {word.strip("?!.,").lower() for word in line.split()}]
    return known[0] if known else "Tell me more."


def main() -> None:
    with open_memory("chat.db", budget=2_000) as memory:
        session = memory.session("terminal", owner="me")
        for line in sys.stdin:
            session.record(onlooker.user(line.strip()))
            context = session.context(system="You are a helpful assistant.")
            said = answer(context)
            session.record(onlooker.assistant(said))
            print(said, flush=True)


if __name__ == "__main__":
    main()
