"""Print what the slowest readers take, as in docs/security.md: `python -m tests.attacks.growth_table`."""

from __future__ import annotations

from contextlib import suppress

from tests.attacks.reading import SHAPES, Reader, readers, shaped
from tests.attacks.test_growth import REFUSALS
from tests.growth import cpu_seconds

SIZES = (10_000, 100_000, 1_000_000)
SHOWN = 12


def seconds(reader: Reader, shape: str, size: int) -> float:
    text = shaped(shape, size)

    def work() -> None:
        with suppress(*REFUSALS):
            reader.read(text)

    return cpu_seconds(work)


def main() -> None:
    known = {reader.name: reader for reader in readers()}
    # Each function with the shape that it takes longest for, and of these the slowest.
    worst = sorted(
        (max((seconds(reader, shape, SIZES[1]), name, shape) for shape in SHAPES)
         for name, reader in known.items()),
        reverse=True,
    )  # fmt: skip
    print(f"{len(known)} functions, {len(SHAPES)} shapes. The slowest:\n")
    print("| function | shape | 10 KB | 100 KB | 1,000 KB |\n|---|---|---|---|---|")
    for middle, name, shape in worst[:SHOWN]:  # not measured again: some have a cache
        times = (seconds(known[name], shape, SIZES[0]), middle, seconds(known[name], shape, SIZES[2]))
        print(f"| `{name}` | {shape} | " + " | ".join(f"{took:.2f} s" for took in times) + " |", flush=True)


if __name__ == "__main__":
    main()
