"""The tokens of cl100k, offline: its vocabulary is in `tests/data`, since tiktoken would download it.

The file has the length of each token and then their bytes, in the order of their ranks. It was made from the
rank file that tiktoken publishes (MIT licence).
"""

from __future__ import annotations

import lzma
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from pathlib import Path

import tiktoken

_VOCABULARY = Path(__file__).parent / "data" / "cl100k.xz"
_SIZE = 100_256
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"
    r"\s*[\r\n]|\s+(?!\S)|\s"
)


@cache
def encoding() -> tiktoken.Encoding:
    """Return the encoding, which takes about half a second to build."""
    raw = lzma.decompress(_VOCABULARY.read_bytes())
    lengths, text = raw[:_SIZE], raw[_SIZE:]
    ranks = {text[a:b]: rank for rank, (a, b) in enumerate(pairwise(accumulate(lengths, initial=0)))}
    return tiktoken.Encoding("cl100k", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})


@lru_cache(4096)  # a prompt says most of what the one before said
def tokens(text: str) -> int:
    """Count the tokens of a text."""
    return len(encoding().encode_ordinary(text))
