"""Exact values: what a note must keep to the letter, and must not make up.

Paths, addresses, ids, hashes, versions, amounts, times, quoted names, code identifiers. All functions
are pure; the order of what they return is the same in every process.
"""

from onlooker.policy.values.finding import Value, find_values, holds
from onlooker.policy.values.ledger import NAMING, audit, carried, invented, rank, values_line, with_values
from onlooker.policy.values.secrets import mask

__all__ = [
    "NAMING",
    "Value",
    "audit",
    "carried",
    "find_values",
    "holds",
    "invented",
    "mask",
    "rank",
    "values_line",
    "with_values",
]
