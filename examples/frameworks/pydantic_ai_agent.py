"""An agent of Pydantic AI's with memory: python examples/frameworks/pydantic_ai_agent.py "I moved to Oslo."

pip install "onlooker[pydantic-ai]"
"""

from __future__ import annotations

import sys

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from onlooker.integrations.pydantic_ai import OnlookerMemory


def main(questions: list[str]) -> None:
    memory = OnlookerMemory("pydantic_ai.db", owner="me")
    # `TestModel` stands in for your model, such as "anthropic:claude-haiku-4-5".
    agent = Agent(TestModel(call_tools=[]), capabilities=[memory])
    history = None
    for question in questions:
        # The conversation is the session.
        result = agent.run_sync(question, message_history=history, conversation_id="terminal")
        history = result.all_messages()
        print(result.output)
    memory.close()


if __name__ == "__main__":
    main(sys.argv[1:])
