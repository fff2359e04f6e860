"""An agent of OpenAI's SDK with memory: python examples/frameworks/openai_agents_agent.py "I moved to Oslo."

pip install "onlooker[openai-agents]"
"""

from __future__ import annotations

import asyncio
import sys

from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message

from onlooker.integrations.openai_agents import OnlookerSession


async def main(questions: list[str]) -> None:
    set_tracing_disabled(True)
    # Stands in for your model: leave it out, or name one.
    model = ScriptedModel([[assistant_message(f"You said: {question}")] for question in questions])
    session = OnlookerSession("terminal", "openai_agents.db", owner="me")
    agent = Agent(name="Friend", model=model, tools=[*session.tools])
    for question in questions:
        result = await Runner.run(agent, question, session=session, run_config=session.run_config)
        print(result.final_output)
    session.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
