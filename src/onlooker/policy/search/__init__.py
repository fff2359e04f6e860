"""Searching, as pure functions: how text becomes words, how hits are ranked, joined and shown."""

from __future__ import annotations
