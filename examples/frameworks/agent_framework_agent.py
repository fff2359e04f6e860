"""An agent of Microsoft's with memory: python examples/frameworks/agent_framework_agent.py "I moved to Oslo."

pip install "onlooker[agent-framework]"
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    FunctionInvocationLayer,
    Message,
)

from onlooker.integrations.agent_framework import OnlookerProvider


class StandIn(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Stands in for your client, such as `OpenAIChatClient(model="gpt-5")`."""

    async def _inner_get_response(self, *, messages: Any, **options: Any) -> ChatResponse[Any]:
        return ChatResponse(messages=[Message("assistant", [f"You said: {messages[-1].text}"])])


async def main(questions: list[str]) -> None:
    memory = OnlookerProvider("agent_framework.db")
    agent = Agent(StandIn(), context_providers=[memory])
    # The session is the session, and the user its owner.
    session = agent.create_session(session_id="terminal")
    for question in questions:
        print((await agent.run(question, session=session, options={"user": "me"})).text)
    memory.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
