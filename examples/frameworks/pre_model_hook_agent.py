"""LangGraph's `create_react_agent` with memory: python examples/frameworks/pre_model_hook_agent.py "I moved."

pip install "onlooker[langchain]"
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent  # pyright: ignore[reportDeprecated]

from onlooker.blocking import Memory, open_memory


class Remembering:
    """The hooks before and after each call of the model."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def session(self, config: RunnableConfig) -> Any:
        about = config.get("configurable", {})
        return self.memory.session(about["thread_id"], owner=about["user_id"])

    def before(self, state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        context = self.session(config).prepare(convert_to_openai_messages(state["messages"]))
        # Only this call sees it: what the graph stores stays as it is.
        return {"llm_input_messages": convert_to_messages(context.openai())}

    def after(self, state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        self.session(config).record(convert_to_openai_messages(state["messages"][-1:]))
        return {}


class StandIn(GenericFakeChatModel):
    """Stands in for your model, such as `init_chat_model("anthropic:claude-haiku-4-5")`."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def main(questions: list[str]) -> None:
    model = StandIn(messages=iter(AIMessage(f"You said: {question}") for question in questions))
    warnings.simplefilter("ignore", DeprecationWarning)  # of `create_react_agent` itself
    with open_memory("pre_model_hook.db") as memory:
        hooks: Any = Remembering(memory)
        agent: Any = create_react_agent(  # pyright: ignore[reportDeprecated]
            model,
            [],
            pre_model_hook=hooks.before,
            post_model_hook=hooks.after,
            checkpointer=InMemorySaver(),
        )
        config = {"configurable": {"thread_id": "terminal", "user_id": "me"}}
        for question in questions:
            said = {"messages": [{"role": "user", "content": question}]}
            print(agent.invoke(said, config)["messages"][-1].text)


if __name__ == "__main__":
    main(sys.argv[1:])
