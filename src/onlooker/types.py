"""The types of arguments and results, for annotations."""

from onlooker.domain.context import Knowledge, LayerRequest, RuntimeContext, Stats
from onlooker.domain.events import Consolidated
from onlooker.domain.history import ForgetResult, NoteHistory, Version
from onlooker.domain.messages import SessionId, ToolCall
from onlooker.domain.notes import Extraction
from onlooker.domain.search import Edge, Hit, Node
from onlooker.engine.corrections import Moment
from onlooker.engine.tools import Tool, Tools
from onlooker.migration import MigrationProgress, MigrationReport, RefusedSession
from onlooker.policy.history import Diff

__all__ = [
    "Consolidated",
    "Diff",
    "Edge",
    "Extraction",
    "ForgetResult",
    "Hit",
    "Knowledge",
    "LayerRequest",
    "MigrationProgress",
    "MigrationReport",
    "Moment",
    "Node",
    "NoteHistory",
    "RefusedSession",
    "RuntimeContext",
    "SessionId",
    "Stats",
    "Tool",
    "ToolCall",
    "Tools",
    "Version",
]
