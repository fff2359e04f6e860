"""A model around another."""

from __future__ import annotations

from onlooker.ports import Model


class Wrapped:
    """It goes by the other's name, and takes as much at once."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def window(self) -> int:
        return self._model.window
