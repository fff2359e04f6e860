"""An agent of LlamaIndex's with memory: python examples/frameworks/llama_index_agent.py "I moved to Oslo."

pip install "onlooker[llama-index]"
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM

from onlooker.integrations.llama_index import OnlookerMemory


def answer(messages: Sequence[ChatMessage], **options: Any) -> ChatMessage:
    return ChatMessage(f"You said: {messages[-1].content}", role="assistant")


async def main(questions: list[str]) -> None:
    # Stands in for your model, such as `Anthropic(model="claude-haiku-4-5")`.
    llm = MockFunctionCallingLLM(response_generator=answer)
    memory = OnlookerMemory("llama_index.db", session_id="terminal", owner="me", llm=llm)
    agent: Any = FunctionAgent(llm=llm, tools=[*memory.tools])
    for question in questions:
        print(await agent.run(user_msg=question, memory=memory))
    memory.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
