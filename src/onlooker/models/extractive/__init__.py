"""The built-in observer: notes without a language model."""

from onlooker.models.extractive.compose import ExtractiveModel

__all__ = ["ExtractiveModel"]
