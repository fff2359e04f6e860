"""Anthropic's client with memory. Nothing else of the program changes.

pip install "onlooker[anthropic]"
ANTHROPIC_API_KEY=… python examples/anthropic_memory.py "I moved to Oslo." "Where do I live?"
"""

from __future__ import annotations

import sys

from anthropic import Anthropic

from onlooker.integrations.sdk import with_memory

with with_memory(Anthropic(), "anthropic.db", session="terminal", owner="me") as client:
    for question in sys.argv[1:]:
        with client.messages.stream(
            model="claude-haiku-4-5", max_tokens=1024, messages=[{"role": "user", "content": question}]
        ) as stream:
            for text in stream.text_stream:
                print(text, end="", flush=True)
        print()
