"""Secrets never enter a note: keys, tokens, private keys, passwords, card numbers."""

from __future__ import annotations

import re

MASK = "[secret]"

_KEYS = re.compile(
    r"""-----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | \b(?:sk|pk|rk)[-_](?:live|test|proj|ant|or)?[-_]?[A-Za-z0-9_-]{16,}
    | \b(?:ghp|gho|ghu|ghs|ghr|glpat|github_pat)[-_][A-Za-z0-9_-]{16,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \bxox[abprs]-[A-Za-z0-9-]{10,}
    | \bAIza[A-Za-z0-9_-]{30,}
    | \bhf_[A-Za-z0-9]{20,} | \bnpm_[A-Za-z0-9]{20,} | \bpypi-[A-Za-z0-9_-]{20,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?""",
    re.X | re.S,
)
# The value after a name that says what it is. The name stays, so that the note can still speak of it.
_NAMED = re.compile(
    r"""(?P<name>(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|auth[_-]?token
        |access[_-]?token|refresh[_-]?token|private[_-]?key|client[_-]?secret)["']?
        \s*(?:=|:|\bis\b)\s*["']?)(?P<value>(?!\[secret\])[^\s"',;]{6,})""",
    re.I | re.X,
)
_BEARER = re.compile(r"(?P<name>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/-]{16,}=*", re.I)
_LOGIN = re.compile(r"(?P<name>\b[a-z][a-z0-9+.-]*://[^\s:/@]+:)[^\s@/]+(?=@)", re.I)
_CARD = re.compile(r"(?<![\d.-])(?:\d[ -]?){12,18}\d(?![\d.])")
# Looked for first, in lower case: each pattern is slow, and few texts hold anything that it could find.
_KEY_SIGNS = (
    "-----begin", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ghp", "gho", "ghu", "ghs", "ghr", "glpat",
    "github_pat", "akia", "asia", "xox", "aiza", "hf_", "npm_", "pypi-", "eyj",
)  # fmt: skip
_NAME_SIGN = re.compile(r"(?:password|passwd|passphrase|secret|key|token)[\"']?\s*(?:=|:|is\b)")
_DIGITS = re.compile(r"\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d")


def mask(text: str) -> str:
    """The text with `[secret]` in place of each secret."""
    lower = text.lower()
    if any(sign in lower for sign in _KEY_SIGNS):
        text = _KEYS.sub(MASK, text)
    if _NAME_SIGN.search(lower):
        text = _NAMED.sub(lambda found: found[0] if _is_harmless(found["value"]) else _named(found), text)
    if "bearer" in lower or "basic" in lower:
        text = _BEARER.sub(_named, text)
    if "://" in lower:
        text = _LOGIN.sub(_named, text)
    if _DIGITS.search(text):
        text = _CARD.sub(lambda found: MASK if _is_card(found[0]) else found[0], text)
    return text


def _named(found: re.Match[str]) -> str:
    return found["name"] + MASK


def _is_harmless(value: str) -> bool:
    """A word of prose, a variable or a placeholder stands there, not the secret itself."""
    return value.isalpha() or value.startswith(("$", "{", "<", "os.", "process.", "env.", "*", "(", "["))


def _is_card(text: str) -> bool:
    """Luhn's check, and a length and first digit that card numbers have."""
    digits = [int(c) for c in text if c.isdigit()]
    if not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6):
        return False
    doubled = sum(sum(divmod(2 * d, 10)) for d in digits[-2::-2])
    return (doubled + sum(digits[-1::-2])) % 10 == 0
