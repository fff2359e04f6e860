"""What stands around an answer: thinking aloud, code fences, a preamble, a closing offer."""

from __future__ import annotations

import re

_THINKS = r"(?:think|thinking|reasoning|scratchpad)"
_OPENS_THINKING = re.compile(rf"^[ \t]*<{_THINKS}>", re.I | re.M)
# The whole line goes, since a note may well speak of such a tag inside one.
_CLOSES_THINKING = re.compile(rf"^.*</{_THINKS}>[ \t]*$", re.I | re.M)
_FENCE = re.compile(r"\s*(?:```+|~~~+)\s*[\w.+-]*\s*$")
_TAG = re.compile(r"\s*</?[a-z][\w-]{0,40}>\s*$", re.I)
_RULE = re.compile(r"\s*(?:[-*_=~#—]\s*){3,}$")
_TABLE_RULE = re.compile(r"[\s|:-]+$")
# Tokens of chat templates: inside a prompt they could end a message.
_TEMPLATE_TOKEN = re.compile(r"<\|([A-Za-z_]{1,30})\|>")
_UNPRINTABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufff9-\ufffb]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_SUBJECT = (
    r"observ|note|reflect|summar|memor|log|condens|updat|entr|beobacht|notiz|zusammenfass|resum|résum"
    r"|sammendrag|notat|merknad|riassunt|appunt|nota|观察|觀察|笔记|筆記|记录|記錄|摘要|总结|總結|観察"
    r"|メモ|要約|記録"
    r"|관찰|메모|요약|наблюден|замет|резюме"
)
_OPENING = (
    r"^(?:(?:sure|certainly|of course|okay|ok|absolutely|understood|alright|got it|great|klar|gerne"
    r"|natürlich"
    r"|bien sûr|d'accord|claro|por supuesto|certo|конечно|好的|当然|當然|了解|はい|承知しました"
    r"|わかりました|네|알겠습니다)"
    r"[\s,.!，。！、-]*){0,3}"
)
_HERE_IS = re.compile(_OPENING + r"here(?:'s|’s| is| are)\b", re.I)
_POINTS = re.compile(
    _OPENING + r"(?:here|below (?:is|are)|i(?:'ve|’ve| have)|these are|the following|this is|based on"
    r"|hier (?:ist|sind)|voici|ci-dessous|aquí|a continuación|aqui|ecco|her er|вот|以下|下面|这是|這是"
    r"|これ|다음은|아래)",
    re.I,
)
_COURTESY = re.compile(
    r"^(?:sure|certainly|of course|okay|ok|absolutely|understood|alright|got it|no problem|好的"
    r"|当然可以|はい"
    r"|承知しました|네|알겠습니다|gerne|claro|bien sûr)[!.,。！]*$",
    re.I,
)
_CLOSING = re.compile(
    r"^[\[(*_]*(?:let me know|i hope (?:this|that)|hope this helps|feel free|would you like me"
    r"|if you (?:need|want|would like|'d like)"
    r"|is there anything else|please let me know|end of (?:notes|observations|reflection|log)|\(?end\)?$"
    r"|lass mich wissen|n'hésitez pas|avísame|如果您|如需|希望这|希望這|ご不明な点|필요하시면|дайте знать)",
    re.I,
)


def clean(text: str) -> str:
    """The text without characters that no note may hold, and with template tokens made harmless."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    text = _UNPRINTABLE.sub("", _SURROGATE.sub("\ufffd", text.replace("\x0b", "\n").replace("\x0c", "\n")))
    return _TEMPLATE_TOKEN.sub(r"[\1]", text.replace("\x85", "\n"))


def is_thinking_only(text: str) -> bool:
    """Whether the model was still thinking aloud when it stopped."""
    return bool(_OPENS_THINKING.search(_after_thinking(text)))


def unwrap(text: str) -> list[str]:
    """The lines of the answer itself, blank ones included."""
    lines = [line.rstrip() for line in _after_thinking(clean(text)).split("\n")]
    lines = [line for line in lines if not (_FENCE.match(line) or _TAG.match(line) or is_rule(line))]
    return _without_closing(_without_preamble(lines))


def _after_thinking(text: str) -> str:
    """Some servers send the closing tag alone, so whatever stands before the last one was thought."""
    ends = [closing.end() for closing in _CLOSES_THINKING.finditer(text)]
    return text[ends[-1] :] if ends else text


def is_rule(line: str) -> bool:
    """Whether the line only divides others."""
    return bool(_RULE.match(line)) or ("--" in line and bool(_TABLE_RULE.match(line)))


def announces(line: str) -> bool:
    """Whether the line only says that notes follow, as "Here are the observations:" does."""
    line = line.strip(" \t*_#")
    if len(line) > 300:
        return False
    if _COURTESY.match(line):
        return True
    if re.search(_SUBJECT, line, re.I) is None:
        return False
    return (
        bool(_POINTS.match(line))
        if line.endswith((":", "："))
        else bool(_HERE_IS.match(line)) and len(line) < 80
    )


def _without_preamble(lines: list[str]) -> list[str]:
    start = 0
    while start < len(lines) and (not lines[start].strip() or announces(lines[start])):
        start += 1
    return lines[start:]


def _without_closing(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and (not lines[end - 1].strip() or _CLOSING.match(lines[end - 1].strip())):
        end -= 1
    return lines[:end]
