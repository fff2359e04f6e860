"""Memory in a LiteLLM proxy: `litellm --config config.yaml` in this folder, with LITELLM_MASTER_KEY set to
the key that clients send.

pip install onlooker "litellm[proxy]"

A client names its session with `litellm_session_id` and its user with `user`, both in the request's body.
"""

from __future__ import annotations

import logging
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

import onlooker


class MemoryCallback(CustomLogger):
    def __init__(self) -> None:
        super().__init__()
        self.memory = onlooker.open_memory("litellm.db")

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: str) -> Any:
        """The request with memory: what the client sent is recorded."""
        key = data.get("litellm_session_id")
        if not key or call_type not in ("completion", "acompletion"):
            return data
        owner = str(data.get("user") or "")
        try:
            context = await self.memory.session(key, owner=owner).prepare(data["messages"])
        except onlooker.OnlookerError:
            logging.exception("a request goes on without memory")
            return data
        about = {**(data.get("metadata") or {}), "onlooker": [key, owner]}
        return {**data, "messages": context.openai(), "metadata": about}

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Record the answer, streamed or not."""
        named = (kwargs["litellm_params"].get("metadata") or {}).get("onlooker")
        if named:
            said = response_obj.choices[0].message.model_dump(exclude_none=True)
            await self.memory.session(named[0], owner=named[1]).record([said])


memory_callback = MemoryCallback()
