"""Search as pure functions: tokens, ranking, recall, vectors and the graph."""

from __future__ import annotations
