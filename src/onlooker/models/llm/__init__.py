"""Language models of any provider. Needs the extra: `pip install "onlooker[llm]"`."""

from onlooker.models.llm.model import LanguageModel

__all__ = ["LanguageModel"]
