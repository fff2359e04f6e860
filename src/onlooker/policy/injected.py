"""What coding agents put into a conversation by themselves: reminders, their environment, skills, standing
instructions. It is passed on to the model, but is not recorded as said by the user."""

from __future__ import annotations

from typing import Any, cast

Item = dict[str, Any]

# The tags around it.
_TAGS = (
    "system-reminder",
    "environment_context",
    "environment_details",
    "user_instructions",
    "ide_opened_file",
    "ide_selection",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "command-message",
    "command-name",
    "bash-stdout",
    "bash-stderr",
    "task-notification",
    "turn_aborted",
    "INSTRUCTIONS",
    "skills_instructions",
    "permissions instructions",
)
_HEADINGS = ("# AGENTS.md instructions", "<skill>\n<name>")


def split_item(item: Item) -> tuple[Item | None, list[Item]]:
    """An item without what was injected, None if that is all of it; and what was injected, as blocks."""
    content = item.get("content")
    if item.get("role") != "user" or not content:
        return item, []
    if isinstance(content, str):
        said, injected = _split(content)
        if not injected:
            return item, []
        return ({**item, "content": said} if said else None), [{"type": "text", "text": t} for t in injected]
    if not isinstance(content, list):
        return item, []
    blocks: list[Any] = []
    removed: list[Item] = []
    for block in cast("list[Any]", content):
        text = block.get("text") if isinstance(block, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not isinstance(text, str):
            blocks.append(block)
            continue
        said, injected = _split(text)
        if not injected:
            blocks.append(block)
        elif said:
            blocks.append({**cast("Item", block), "text": said})
            kind = cast("Item", block).get("type", "text")
            removed += [{"type": kind, "text": t} for t in injected]
        else:
            removed.append({k: v for k, v in cast("Item", block).items() if k != "cache_control"})
    if not removed:
        return item, []
    return ({**item, "content": blocks} if blocks else None), removed


def is_plain(text: str) -> bool:
    """Return whether nothing can be injected in a text."""
    return "<" not in text and not text.startswith(_HEADINGS)


def _split(text: str) -> tuple[str, list[str]]:
    """What a person wrote in a text, and what an agent put around it. Linear in the text."""
    if is_plain(text):
        return text, []
    if text.startswith(_HEADINGS):
        return "", [text]
    injected: list[str] = []
    for tag in _TAGS:
        opening, closing = f"<{tag}>", f"</{tag.partition(' ')[0]}"
        if opening not in text:
            continue
        kept: list[str] = []
        at = 0
        while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
            stop = text.find(">", end) + 1 or len(text)
            kept.append(text[at:start])
            injected.append(text[start:stop])
            at = stop
        kept.append(text[at:])
        text = "".join(kept)
    return (text.strip(), injected) if injected else (text, [])
