"""`frozen` gives what `dataclass(frozen=True, slots=True)` gives, and gives it late."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any, Generic, TypeVar

import pytest

from onlooker.domain.frozen import frozen

T = TypeVar("T")


@frozen
class Base:
    """At what time."""

    at: float = field(default=0.0, kw_only=True, compare=False)


@frozen
class Point(Base):
    """A point."""

    x: int
    y: int = 2
    names: list[str] = field(default_factory=list[str], repr=False, hash=False)


@frozen
class Box(Generic[T]):
    """Has what it was given, doubled."""

    held: T
    doubled: list[T] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", [self.held, self.held])

    def __repr__(self) -> str:
        return "a box"


class Labelled(Point):
    """A plain subclass."""

    def __init__(self, label: str) -> None:
        super().__init__(len(label))


@dataclass(frozen=True, slots=True)
class LikeBase:
    at: float = field(default=0.0, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class LikePoint(LikeBase):
    x: int
    y: int = 2
    names: list[str] = field(default_factory=list[str], repr=False, hash=False)


def test_it_makes_compares_hashes_and_shows_as_a_dataclass_does() -> None:
    one, like = Point(1, names=["a"], at=3.0), LikePoint(1, names=["a"], at=3.0)
    assert repr(one) == repr(like).replace("Like", "")
    assert one == Point(1, 2, ["a"], at=4.0)
    assert hash(one) == hash(Point(1, 2, ["b"])) == hash(like)
    assert one != Point(2)
    assert one != Base(at=3.0)
    assert asdict(one) == asdict(like)
    assert [f.name for f in fields(Point)] == [f.name for f in fields(LikePoint)]
    assert replace(one, y=5) == Point(1, 5, ["a"])
    assert Point(1).names is not Point(1).names
    match one:
        case Point(x, y):
            assert (x, y) == (1, 2)


@pytest.mark.parametrize("wrong", [(), (1, 2, [], 3.0)])
def test_wrong_arguments_are_refused_as_by_a_dataclass(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError) as ours:
        Point(*wrong)
    with pytest.raises(TypeError) as theirs:
        LikePoint(*wrong)
    assert str(ours.value) == str(theirs.value).replace("Like", "")


def test_it_cannot_be_changed() -> None:
    point: Any = Point(1)
    changes = (lambda: setattr(point, "x", 2), lambda: setattr(point, "z", 2), lambda: delattr(point, "x"))
    for change in changes:
        with pytest.raises(FrozenInstanceError):
            change()
    assert not hasattr(point, "__dict__")


def test_a_class_keeps_methods_of_its_own() -> None:
    assert repr(Box(3)) == "a box"
    assert Box(3).doubled == [3, 3]
    assert Box(3) == Box(3)
    assert Labelled("abc").x == 3


def test_its_signature_is_that_of_a_dataclass() -> None:
    shown = inspect.signature(Point)
    assert str(shown) == str(inspect.signature(LikePoint))
    assert str(inspect.signature(Labelled)) == "(label: 'str') -> 'None'"


def test_it_is_copied_and_pickled() -> None:
    point = Point(1, names=["a"], at=3.0)
    for twin in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert twin == point
        assert twin.at == 3.0


def test_what_another_process_pickled_can_be_compared() -> None:
    """Nothing was made there by calling the class."""
    script = (
        "import pickle, sys; two = [pickle.loads(sys.stdin.buffer.read(int(n))) for n in sys.argv[1:]];"
        "assert two[0] == two[1], two"
    )
    from onlooker import Message

    parts = [pickle.dumps(Message("user", "Hi", id="1")) for _ in range(2)]
    sizes = [str(len(part)) for part in parts]
    subprocess.run([sys.executable, "-c", script, *sizes], input=b"".join(parts), check=True)


def test_methods_are_made_when_they_are_first_called() -> None:
    @frozen
    class Late:
        n: int = 0

    waiting = vars(Late)["__eq__"]
    assert Late() == Late(0)
    assert vars(Late)["__eq__"] is not waiting
