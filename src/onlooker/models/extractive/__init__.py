"""The built-in observer: notes without a language model."""

from onlooker.models.extractive.model import ExtractiveModel

__all__ = ["ExtractiveModel"]
