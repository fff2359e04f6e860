"""Which lines matter more than others, by rule."""

from __future__ import annotations

import re

# A critical line is kept word for word for ever, so few things are.
_CRITICAL = re.compile(
    r"\ballerg(?:y|ies|ic)\b|\bemergency\b|\b(?:production|prod|site|server|service) (?:is |was "
    r"|went )?down\b|\boutage\b"
    r"|\bdata loss\b|\bbreach(?:ed)?\b|\b(?:never|do not|don't) (?:ever )?(?:deploy|delete|push|share"
    r"|drop|publish|commit)\b"
    r"|过敏|紧急|緊急|アレルギー|알레르기|긴급",
    re.I,
)
_FAILURE = re.compile(
    r"\b(?:fail(?:ed|s)?|error|crash(?:ed|es)?|broke|bug)\b|失败|错误|故障|障害|失敗|오류", re.I
)
_REMEDY = re.compile(
    r"\b(?:fix(?:ed)?|solved|resolved|because|caused|due to|root cause|missing|by setting|turned out)\b"
    r"|因为|原因|修复|修正|원인",
    re.I,
)
_IMPORTANT = re.compile(
    r"\b(?:decided (?:to|on|that|not)|agreed (?:on|to|that)|approved|confirmed|deadline|due (?:on|by|date)"
    r"|from now on|remember that|always use|never use|please (?:always|never|don't)|cancell?ed|diagnosed"
    r"|got (?:married|engaged|promoted|fired|hired|the job)|moved to|quit (?:my|the) job)\b"
    r"|决定|確定|确定|确认|截止|必须|务必|记住|決定|締め切り|必ず|결정|마감|반드시",
    re.I,
)


def priority(text: str, *, asks: bool = False, by_host: bool = False) -> str:
    """CRITICAL, IMPORTANT or NOTE."""
    if asks or by_host:
        return "NOTE"
    if _CRITICAL.search(text) or (_FAILURE.search(text) and _REMEDY.search(text)):
        return "CRITICAL"
    return "IMPORTANT" if _IMPORTANT.search(text) else "NOTE"
