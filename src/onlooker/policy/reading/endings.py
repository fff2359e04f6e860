"""Whether an answer stops before its end, although the provider did not say so.

Most notes end without a full stop, so only endings that nobody writes on purpose count.
"""

from __future__ import annotations

import re

from onlooker.policy.reading.notetext import NoteText
from onlooker.policy.reading.stamps import take_head

_SENTENCE_END = tuple(".!?…。！？」』”\"')）]*`")
# Words that something has to follow, in lower case only: OR and DE may be places.
_LEADS_ON = re.compile(
    r"(?:^|\s)(?:and|or|but|the|an|of|because|than|whose|und|oder|aber|weil|dass|et|ou|mais|parce que"
    r"|du|pero|porque"
    r"|y|og|eller|fordi|och|i że|ponieważ|и|или|потому что)$"
)
_OPEN_END = re.compile(r"(?:[,，、;；({\[（「『“+=→]|\s[-–—&])$")
_OPEN_STAMP = re.compile(r"\[[\d\-:/ T]{0,16}$|^#{1,6}\s*(?:\d[\d-]{0,9})?$")
_MIN_SENTENCES = 2
_MIN_LINES = 4


def stops_short(reply: str, note: NoteText) -> str:
    """What shows that the answer was cut off, or ""."""
    text = reply.rstrip().rstrip("`~").rstrip()
    last = text.rsplit("\n", 1)[-1].strip()
    if not last:
        return ""
    if _OPEN_STAMP.search(last) or _bare_head(last):
        return f"ends with {last[-24:]!r}"
    if _OPEN_END.search(last) or _LEADS_ON.search(last):
        return f"ends with {last[-24:]!r}"
    if _unlike_the_rest(note, last, one_paragraph="\n" not in text.strip()):
        return f"the last sentence has no end: {last[-24:]!r}"
    return ""


def _bare_head(last: str) -> bool:
    head = take_head(last)
    return head.found and not head.text


def _unlike_the_rest(note: NoteText, last: str, *, one_paragraph: bool) -> bool:
    """Whether every sentence but the last has its full stop."""
    if last.endswith(_SENTENCE_END) or last.lower().startswith("values"):
        return False
    if note.format == "prose":
        text = note.lines[-1].text if note.lines else ""
        return one_paragraph and len(re.findall(r"[.!?](?=\s)|[。！？]", text)) >= _MIN_SENTENCES
    # The lines may be sorted by day by now; the cut one is whichever does not end as the others do.
    ended = [line.text.endswith(_SENTENCE_END) for line in note.lines]
    return len(ended) > _MIN_LINES and ended.count(False) == 1
