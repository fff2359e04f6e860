"""An agent of Google's ADK with memory: python examples/frameworks/google_adk_agent.py "I moved to Oslo."

pip install "onlooker[google-adk]"
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from onlooker.integrations.google_adk import OnlookerPlugin


class StandIn(BaseLlm):
    """Stands in for your model, such as "gemini-flash-latest"."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Good to know.")]))


async def main(questions: list[str]) -> None:
    memory = OnlookerPlugin("google_adk.db")
    agent = LlmAgent(name="friend", model=StandIn(model="stand-in"))
    app = App(name="friends", root_agent=agent, plugins=[memory])
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    for question in questions:
        said = types.Content(role="user", parts=[types.Part(text=question)])
        # The session is the session, and the user its owner.
        async for event in runner.run_async(user_id="me", session_id="terminal", new_message=said):
            print(event.content.parts[0].text if event.content and event.content.parts else "")
    await runner.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
