"""The records: what is kept, and what a recall gives."""

from agently_gumem.records._base import Moment, Record, as_record, aware, now
from agently_gumem.records.context import ContextItem, Layer, MemoryContext
from agently_gumem.records.fact import (
    Certainty,
    Change,
    EventTime,
    Fact,
    Kind,
    MemoryStatus,
    Summary,
    TimeRange,
    Topic,
    Validity,
    noted,
)
from agently_gumem.records.lifetime import earliest, has_passed, latest, shown_to, union
from agently_gumem.records.memo import Memo, MemoState, StableFact
from agently_gumem.records.message import APART, NOTE, TOLD, TOOL_CALL, Action, Message, Status
from agently_gumem.records.report import ForgetReport, Outside
from agently_gumem.records.tomb import Tomb

__all__ = [
    "APART",
    "NOTE",
    "TOLD",
    "TOOL_CALL",
    "Action",
    "Certainty",
    "Change",
    "ContextItem",
    "EventTime",
    "Fact",
    "ForgetReport",
    "Kind",
    "Layer",
    "Memo",
    "MemoState",
    "MemoryContext",
    "MemoryStatus",
    "Message",
    "Moment",
    "Outside",
    "Record",
    "StableFact",
    "Status",
    "Summary",
    "TimeRange",
    "Tomb",
    "Topic",
    "Validity",
    "as_record",
    "aware",
    "earliest",
    "has_passed",
    "latest",
    "noted",
    "now",
    "shown_to",
    "union",
]
