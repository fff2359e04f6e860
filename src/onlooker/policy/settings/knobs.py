"""Every knob, its default, and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onlooker.domain.notes import NoteFormat

Size = int | float


@dataclass(frozen=True, slots=True)
class Settings:
    """How a memory behaves. Make one with `preset`, `from_mapping` or `replace`."""

    enabled: bool = True
    preset: str = "default"
    # Tokens for a whole context where the call names none. 0: only the section limits hold.
    budget: int = 16_000
    estimator: str = "default"
    format: NoteFormat = "lines"
    model: str = ""  # "" is the agent's own where one is given, else the built-in extractive model
    reflector_model: str = ""  # "" is the observer's
    instruction: str = ""  # your own words on what to note, for language models
    # Dollars that language models may cost, 0 for any amount. At a limit their calls stop, not memory.
    spend_per_session: float = 0.0
    spend_per_owner: float = 0.0
    spend_per_day: float = 0.0

    # When messages become notes. `observe_at` is how much may stand raw before notes replace it;
    # `keep_recent` stays raw after that. Notes are written ahead (`precompute`) as soon as one
    # chunk lies before `keep_recent`, so that crossing `observe_at` waits for no model.
    observe_at: Size = 0.185
    keep_recent: Size = 0.05
    chunk_tokens: Size = 0.13
    chunk_messages: int = 0  # 0: any number
    precompute: bool = True
    precompute_at: Size = 0.18
    overlap: Size = 0  # noted messages that still stand raw

    # What the prompt may hold. Memory takes at most what may not stand raw. 0 is no limit for the counts.
    memory_limit: Size = 0.90
    message_limit: Size = 0.90
    cross_session_limit: Size = 0.10
    # Whose sessions share items: of owners that are named, since whoever opens sessions without one may
    # have many people under it; of all; or of none.
    cross_session: Literal["named", "all", "off"] = "named"
    # Without a message for so long a session has ended, and items are made of it; a process that stops
    # ends those that it has used. 0: only `Session.end` does.
    idle_minutes: float = 30.0
    # All knowledge layers together, of what the base prompt leaves. 0: as much as they give.
    knowledge_limit: Size = 0.40
    knowledge_deadline: float = 2.0  # seconds; a layer that takes longer is left out of that context
    max_reflections: int = 0
    max_observations: int = 0

    # Recall: messages of the past that bear on what the user says now, word for word at the end of the
    # prompt. Off, since its share is taken from the notes on every turn, and most turns go on from the last
    # few. A context that is built for a question (`question=`) has it in any case.
    recall: bool = False
    recall_limit: Size = 0.15
    recall_scope: Literal["session", "owner"] = "session"
    embedder: str = ""  # finds by meaning as well: "openai:MODEL", "local:MODEL"; "": by words alone
    # Texts that may wait for an index, go into it at once, and wait for so many seconds to come together.
    index_queue: int = 1000
    index_batch: int = 64
    index_seconds: float = 1.0

    # When notes are condensed: late, shallow and rarely, since unused room is lost memory and each
    # rewrite of the prefix costs the provider's cache.
    reflect_at: Size = 0.90
    reflect_counts: Literal["memory", "observations"] = "memory"
    reflect_to: float = 0.85  # of reflect_at; 0: condense every observation
    # How much of the memory is condensed at once, oldest first. 0: twice what must go, which is cheap;
    # the built-in reflector costs nothing and takes all of it, since the more it sees at once, the
    # better it chooses.
    reflect_share: float = 0.0
    consolidate_at: int = 5
    # What a note should be of its source: `first_ratio` while memory is empty, `note_ratio` once it is full.
    # 0: the same from the first; the built-in model's are longer then, since condensing them later costs
    # nothing and the room would stay empty.
    first_ratio: float = 0.0
    note_ratio: float = 0.25

    # The last resort when the model is behind: wait for it, at most this long. 0: never wait.
    block_after: Size = 0
    block_deadline: float = 10.0

    compact: bool = False  # take noted messages out of the live session
    archive: bool = True  # and keep them for recall
    journal: str = ""  # a folder for append-only files of all that is said and noted; "": none
    notes_folder: str = ""  # a folder for MEMORY.md and daily notes, which people read and edit; "": none

    # The count's own error: this share of the budget stays empty.
    margin: float = 0.04

    concurrency: int = 4
    model_deadline: float = 120.0
    lease_seconds: float = 30.0
    sweep_seconds: float = 5.0
    retry_seconds: float = 2.0
    retry_limit_seconds: float = 300.0
    stop_deadline: float = 10.0
    retention_days: int = 0  # superseded notes older than this are purged in the background; 0: never
    # Noted messages older than this, or than the newest so many of a session, leave it for the archive, and
    # from there go for good; an owner's, beyond so many of all sessions, too. 0: never.
    retention_archive_days: int = 0
    retention_archive_messages: int = 0
    retention_delete_days: int = 0
    retention_delete_messages: int = 0
    retention_owner_messages: int = 0
    # OpenTelemetry spans and metrics, where the host uses it. They say how much and how long, never what.
    telemetry: bool = True
