"""Find the closest vectors, the same way for every store.

A first pass compares only the sign bits of vectors: one bit instead of four bytes per number, compared by
counting. The likely ones are then compared in full.
"""

from __future__ import annotations

import heapq
import sys
from array import array
from collections.abc import Iterable, Sequence
from math import isfinite, sqrt
from operator import mul

# How many are compared in full: several times the number wanted, since bits are only an approximation.
RESCORED = 400


def unit(vector: Sequence[float]) -> array[float]:
    """Scale a vector to length 1, so that a product is a cosine. A vector without a direction becomes all
    zeros, which is close to nothing."""
    length = sqrt(sum(map(mul, vector, vector)))
    if not length or not isfinite(length):
        return array("f", bytes(4 * len(vector)))
    return array("f", [x / length for x in vector])


def packed(vector: array[float]) -> bytes:
    """Pack a vector into four bytes per number, little-endian."""
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector.tobytes()


def unpacked(blob: bytes) -> array[float]:
    """Undo `packed`."""
    vector: array[float] = array("f", blob)
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


def signs(vector: Sequence[float]) -> bytes:
    """Return one bit per number: whether it is above 0."""
    bits = 0
    for position, number in enumerate(vector):
        if number > 0:
            bits |= 1 << position
    return bits.to_bytes((len(vector) + 7) // 8, "little")


def likely(bits: bytes, others: Iterable[tuple[int, bytes]], limit: int = RESCORED) -> list[int]:
    """Return the numbers of the vectors that differ in the fewest bits, the newer first among equals."""
    asked = int.from_bytes(bits, "little")
    read = int.from_bytes
    differing = (((read(other, "little") ^ asked).bit_count(), -number) for number, other in others)
    return [-number for _, number in heapq.nsmallest(limit, differing)]


def closest(
    vector: array[float], others: Iterable[tuple[int, array[float]]], limit: int
) -> list[tuple[int, float]]:
    """Return the closest vectors by number, with their cosines, if positive."""
    products = ((sum(map(mul, vector, other)), number) for number, other in others)
    best = heapq.nlargest(limit, ((cosine, number) for cosine, number in products if cosine > 0))
    return [(number, cosine) for cosine, number in best]
