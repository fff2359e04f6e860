"""A deep agent with memory: python examples/frameworks/deepagents_agent.py "I moved to Oslo."

pip install "onlooker[langchain]" deepagents
"""

from __future__ import annotations

import sys
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from onlooker.integrations.langchain import OnlookerMiddleware


class StandIn(GenericFakeChatModel):
    """Stands in for your model, such as `init_chat_model("anthropic:claude-haiku-4-5")`."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def main(questions: list[str]) -> None:
    model = StandIn(messages=iter(AIMessage(f"You said: {question}") for question in questions))
    memory = OnlookerMiddleware("deepagents.db")
    agent: Any = create_deep_agent(model, middleware=[memory], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "terminal", "user_id": "me"}}
    for question in questions:
        said = {"messages": [{"role": "user", "content": question}]}
        print(agent.invoke(said, config)["messages"][-1].text)
    memory.close()


if __name__ == "__main__":
    main(sys.argv[1:])
