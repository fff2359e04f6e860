"""A provider of language models on this machine, for tests: it speaks the protocols of OpenAI (chat
completions and responses) and Anthropic (messages) over HTTP, does what it is told, and keeps what it
was sent. Nothing but the standard library is needed.

    with LocalProvider(Answer("## 2026-02-16\\nAna moved to Oslo")) as provider:
        model = LanguageModel(f"openai:test@{provider.url}/v1")
"""

from onlooker.testing.provider.server import Answer, LocalProvider, Received

__all__ = ["Answer", "LocalProvider", "Received"]
