"""`@frozen`: how values are declared."""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, make_dataclass
from inspect import Signature, signature
from typing import Any, NoReturn, TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[C]) -> type[C]:
    """`dataclass(frozen=True, slots=True)`, but the methods of a class are made when they are first called.

    Python compiles six methods for each such class. A program uses few of our classes: without this, two
    fifths of the start of `onlooker hook` went into methods that nobody calls.
    """
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    for name in ("__init__", "__repr__", "__eq__", "__hash__"):
        if name == "__init__" or name not in cls.__dict__:
            setattr(made, name, _first_call(made, name))
    made.__signature__ = _LazySignature(made)
    made.__setattr__, made.__delattr__ = _refuse_set, _refuse_delete
    made.__getstate__, made.__setstate__ = _state, _set_state
    return made


def _first_call(made: Any, name: str) -> Any:
    """A method that puts the one of `dataclass` in its place."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return _made(made, name)(self, *args, **options)

    return method


def _made(made: Any, name: str) -> Any:
    """Give a class the method that `dataclass` makes, and return it."""
    own = {"__doc__": made.__doc__}
    if hasattr(made, "__post_init__"):
        own["__post_init__"] = made.__post_init__
    declared = [(f.name, f.type, _again(f)) for f in fields(made)]
    compares, shows = name in ("__eq__", "__hash__"), name == "__repr__"
    like = make_dataclass(
        made.__name__, declared, namespace=own, frozen=True, eq=compares, repr=shows, match_args=False
    )
    method = getattr(like, name)
    setattr(made, name, method)
    return method


def _again(f: Field[Any]) -> Any:
    """The field, to be declared in another class."""
    given: dict[str, Any] = {"default": f.default, "default_factory": f.default_factory}
    options = {name: value for name, value in given.items() if value is not MISSING}
    return field(**options, init=f.init, repr=f.repr, hash=f.hash, compare=f.compare, kw_only=f.kw_only)


class _LazySignature:
    """What `help` and the documentation show of a class."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __get__(self, instance: object, owner: type) -> Signature:
        if owner is not self._made:
            raise AttributeError("__signature__")  # a subclass has its own
        own = signature(_made(owner, "__init__"))
        return own.replace(parameters=list(own.parameters.values())[1:])


def _refuse_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
