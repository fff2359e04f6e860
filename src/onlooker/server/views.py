"""The JSON that REST accepts and returns. What it returns is filled from our own objects."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from onlooker.domain.context import Stats
from onlooker.domain.items import ItemStatus, ItemType, Origin
from onlooker.domain.messages import Role
from onlooker.domain.notes import NoteKind, NoteStatus, SessionSummary
from onlooker.domain.search import HitKind, Why
from onlooker.policy.align import Rewind

# How many messages one request may have.
MAX_MESSAGES = 100_000


class View(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class SessionName(View):
    owner: str
    key: str


class ToolCallView(View):
    id: str
    name: str
    arguments: str = Field(description="The provider's JSON text.")


class MessageView(View):
    """A recorded message."""

    role: Role
    text: str
    id: str
    at: datetime | None
    name: str
    calls: list[ToolCallView]
    answers: str = Field(description="For a tool result: the id of the call.")
    attachments: list[str]
    seq: int
    tokens: int


class NoteView(View):
    """An observation, or a reflection."""

    id: str
    kind: NoteKind
    generation: int
    first: int = Field(description="The seq of the first message that it covers.")
    last: int
    text: str
    tokens: int
    made_at: datetime
    sources: list[str]
    status: NoteStatus
    model: str
    degraded: bool


class ItemView(View):
    """A fact that outlives its session."""

    owner: str
    id: str
    type: ItemType
    summary: str
    made_at: datetime
    tags: list[str]
    origin: Origin
    said_at: datetime | None
    valid_from: datetime | None
    ended_at: datetime | None
    superseded_by: str
    expires_at: datetime | None
    uses: int
    last_used_at: datetime | None
    pinned: bool
    session: str
    sources: list[str]
    replaces: list[str]
    derived_from: list[str]
    status: ItemStatus


class HitView(View):
    kind: HitKind
    session: SessionName
    id: str
    seq: int
    text: str
    snippet: str
    at: datetime | None
    score: float
    speaker: str
    taken_back: bool
    why: Why


class SessionView(View):
    """A session, and how far its notes are."""

    owner: str
    key: str
    messages: int
    message_tokens: int
    observations: int
    observation_tokens: int
    reflections: int
    reflection_tokens: int
    started_at: datetime | None
    last_at: datetime | None
    last_seq: int
    frontier: int = Field(description="The last message that a note covers.")
    watermark: int = Field(description="The last message that a note shown in the prompt covers.")
    pending_tokens: int = Field(description="Tokens of messages that no note covers yet.")
    prompt_version: int
    ended: bool

    @classmethod
    def of(cls, summary: SessionSummary) -> Self:
        progress = summary.progress
        own = {name: getattr(summary, name) for name in cls.model_fields if hasattr(summary, name)}
        return cls(
            **own,
            owner=progress.session.owner,
            key=progress.session.key,
            last_seq=progress.last_seq,
            frontier=progress.frontier,
            watermark=progress.watermark,
            pending_tokens=progress.unnoted_tokens,
            prompt_version=progress.prompt_version,
            ended=progress.ended >= progress.last_seq > 0,
        )


class VersionView(View):
    number: int
    text: str
    tokens: int
    by: str
    at: datetime


class NoteHistoryView(View):
    """A note, its texts over time, and the notes made from it."""

    note: NoteView
    versions: list[VersionView]
    made_into: list[str]


class ForgetView(View):
    """How much was forgotten, or would be."""

    messages: int
    deleted_notes: int
    rewritten_notes: int
    items: int
    sessions: int
    erased: bool


class ForgetRecordView(View):
    at: datetime
    by: str
    what: str
    count: int
    owner: str
    session: str


class ForgetLog(BaseModel):
    forgotten: list[ForgetRecordView]


class UsageView(View):
    model: str
    purpose: str
    input_tokens: int
    output_tokens: int
    verdict: str
    at: datetime
    cost: float | None


class SessionPage(BaseModel):
    sessions: list[SessionView]
    next: str | None = Field(description="The cursor of the next page; null after the last.")


class MessagePage(BaseModel):
    messages: list[MessageView]
    next: str | None


class NotePage(BaseModel):
    notes: list[NoteView]
    next: str | None


class Recorded(BaseModel):
    """The messages that were new. Those whose id was recorded before are left out."""

    recorded: list[MessageView]


class Messages(BaseModel):
    messages: list[MessageView]


class Notes(BaseModel):
    notes: list[NoteView]


class Items(BaseModel):
    items: list[ItemView]


class Hits(BaseModel):
    hits: list[HitView]


class Pins(BaseModel):
    pins: list[str]


class Settled(BaseModel):
    settled: bool = Field(description="False if a model failed, or another process takes the notes.")


class Spend(BaseModel):
    calls: list[UsageView]
    spent: float = Field(description="Dollars; calls of unknown cost count as 0.")
    spent_today: float


class Imported(BaseModel):
    rows: dict[str, int]


class ConsolidatedDay(View):
    owner: str
    day: date
    items: list[ItemView] = Field(description="The new items, including ended ones.")
    problem: str = Field(description="Why the day was not consolidated; empty if it was.")


class ConsolidatedDays(BaseModel):
    days: list[ConsolidatedDay]


class Problem(BaseModel):
    """What went wrong, and what to do (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    error: str | None = Field(None, description="The name of the error in the library.")


PROBLEM_TYPE = "application/problem+json"
_PROBLEM = {"content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text, "content": _PROBLEM["content"]}
    for status, text in {
        400: "The request cannot be read.",
        401: "A token is required.",
        404: "It does not exist, or belongs to another owner.",
        409: "Another process changed it first.",
        413: "The request is too large.",
        422: "A value is invalid.",
        429: "Too many requests.",
        503: "The storage cannot be read or written now.",
    }.items()
}


# -- Contexts

Format = Literal["openai", "anthropic", "text", "parts"]


class ContextRequest(BaseModel):
    """The options of a context."""

    model_config = ConfigDict(extra="forbid")

    system: str = Field("", description="The base prompt, placed before the memory.")
    budget: int | None = Field(None, ge=0, le=100_000_000, description="The limit in tokens. 0: none.")
    format: Format = Field("openai", description="`parts`: everything, for the Python client.")
    knowledge: dict[str, str] = Field({}, description="Texts of knowledge layers, by name.")
    end: str = Field("", description="Text for the end of the prompt.")
    relative_time: bool = False
    question: str = Field("", description="Build a context to answer this.")


class PrepareRequest(ContextRequest):
    messages: list[dict[str, Any]] = Field(max_length=MAX_MESSAGES, description="The host's history.")
    rewind: Rewind = "auto"


class ContextView(BaseModel):
    """A context in the form asked for: `messages` (with `system` for Anthropic), `text` or `parts`."""

    session: SessionName
    format: Format
    system: Any = None
    messages: list[Any] | None = None
    text: str | None = None
    parts: dict[str, Any] | None = None
    stats: Stats


class Edit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=1_000_000)
    was: str | None = Field(None, description="The text that the edit started from.")
    by: str = Field("", max_length=200)


class Undo(BaseModel):
    model_config = ConfigDict(extra="forbid")

    note: str | None = Field(None, description="The reflection; by default the last one.")
    dry_run: bool = False


class Forget(BaseModel):
    model_config = ConfigDict(extra="forbid")

    targets: list[str] = Field(min_length=1, max_length=10_000, description="Ids of messages or notes.")
    dry_run: bool = False


class Restore(BaseModel):
    model_config = ConfigDict(extra="forbid")

    message: str = Field(description="The id of a message that was taken back.")


class NewItem(BaseModel):
    model_config = ConfigDict(extra="forbid")

    summary: str = Field(max_length=10_000, description="One sentence that can be understood alone.")
    type: ItemType = "knowledge"
    tags: list[str] = Field([], max_length=50)
    origin: Origin = "user"
    supersedes: str = ""
    expires_at: datetime | None = None
    pinned: bool = False
