"""OpenAI's client with memory. Nothing else of the program changes.

pip install "onlooker[openai]"
OPENAI_API_KEY=… python examples/openai_memory.py "I moved to Oslo." "Where do I live?"
"""

from __future__ import annotations

import sys

from openai import OpenAI

from onlooker.integrations.sdk import with_memory

with with_memory(OpenAI(), "openai.db", session="terminal", owner="me") as client:
    for question in sys.argv[1:]:
        reply = client.chat.completions.create(
            model="gpt-5-mini", messages=[{"role": "user", "content": question}]
        )
        print(reply.choices[0].message.content)
