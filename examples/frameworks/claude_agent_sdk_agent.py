"""An agent of the Claude Agent SDK with memory: python examples/frameworks/claude_agent_sdk_agent.py "Hi."

pip install "onlooker[claude-agent-sdk]"
"""

from __future__ import annotations

import asyncio
import sys

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from onlooker.integrations.claude_agent_sdk import OnlookerMemory


async def main(questions: list[str]) -> None:
    memory = OnlookerMemory("claude_agent_sdk.db", owner="me")
    options = ClaudeAgentOptions(model="claude-haiku-4-5", setting_sources=[])
    async with ClaudeSDKClient(memory.options(options)) as client:
        for question in questions:
            await client.query(question)
            async for message in client.receive_response():
                if isinstance(message, ResultMessage):
                    print(message.result)
    memory.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
