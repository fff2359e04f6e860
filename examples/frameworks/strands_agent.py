"""An agent of Strands' with memory: python examples/frameworks/strands_agent.py "I moved to Oslo."

pip install "onlooker[strands]"
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from typing import Any

from strands import Agent
from strands.models import Model
from strands.session import FileSessionManager
from strands.types.streaming import StreamEvent

from onlooker.integrations.strands import OnlookerPlugin


class StandIn(Model):
    """Stands in for your model, such as `AnthropicModel(model_id="claude-haiku-4-5")`."""

    def get_config(self) -> Any:
        return {}

    def update_config(self, **config: Any) -> None:
        pass

    async def stream(self, messages: Any, *args: Any, **options: Any) -> AsyncGenerator[StreamEvent, None]:
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": "Good to know."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def main(questions: list[str]) -> None:
    memory = OnlookerPlugin("strands.db")
    # The session of the manager is the session.
    manager = FileSessionManager("terminal", storage_dir="strands")
    agent = Agent(StandIn(), plugins=[memory], session_manager=manager, callback_handler=None)
    for question in questions:
        print(agent(question, invocation_state={"user_id": "me"}))
    memory.close()


if __name__ == "__main__":
    main(sys.argv[1:])
