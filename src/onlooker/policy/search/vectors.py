"""Which vectors are closest, the same for every store.

The sign of each number says enough of a vector to find the likely ones: a bit instead of four bytes, and
two are compared by counting. Those are then compared in full.
"""

from __future__ import annotations

import heapq
import sys
from array import array
from collections.abc import Iterable, Sequence
from math import isfinite, sqrt
from operator import mul

# So many are compared in full: several times what is asked for, since bits tell only about.
RESCORED = 400


def unit(vector: Sequence[float]) -> array[float]:
    """The vector at length 1, so that a product is a cosine. One that is no direction is all zeros, and
    close to nothing."""
    length = sqrt(sum(map(mul, vector, vector)))
    if not length or not isfinite(length):
        return array("f", bytes(4 * len(vector)))
    return array("f", [x / length for x in vector])


def packed(vector: array[float]) -> bytes:
    """As four bytes for each number, the lowest first."""
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector.tobytes()


def unpacked(blob: bytes) -> array[float]:
    """What `packed` was given."""
    vector: array[float] = array("f", blob)
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


def signs(vector: Sequence[float]) -> bytes:
    """A bit for each number: whether it is above 0."""
    bits = 0
    for place, number in enumerate(vector):
        if number > 0:
            bits |= 1 << place
    return bits.to_bytes((len(vector) + 7) // 8, "little")


def likely(bits: bytes, others: Iterable[tuple[int, bytes]], most: int = RESCORED) -> list[int]:
    """Those, by number, that differ in the fewest bits; the newer of two that differ in as many."""
    asked = int.from_bytes(bits, "little")
    read = int.from_bytes
    differing = (((read(other, "little") ^ asked).bit_count(), -number) for number, other in others)
    return [-number for _, number in heapq.nsmallest(most, differing)]


def closest(
    vector: array[float], others: Iterable[tuple[int, array[float]]], most: int
) -> list[tuple[int, float]]:
    """The closest, with their cosines; nothing that points away."""
    products = ((sum(map(mul, vector, other)), number) for number, other in others)
    best = heapq.nlargest(most, ((cosine, number) for cosine, number in products if cosine > 0))
    return [(number, cosine) for cosine, number in best]
