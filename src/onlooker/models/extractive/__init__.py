"""The built-in model, which writes notes without a language model."""

from onlooker.models.extractive.compose import ExtractiveModel

__all__ = ["ExtractiveModel"]
