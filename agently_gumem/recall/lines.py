"""Each record as one line of the text, with its dates."""

from datetime import datetime, timedelta

from agently_gumem.recall.frame import neutralise
from agently_gumem.recall.index import UserIndex
from agently_gumem.records import Fact, Message, Summary, TimeRange

_ROLES = {"user": "用户", "assistant": "助手", "system": "系统"}


class Writer:
    """Writes lines in the language of the memory, as of one moment."""

    def __init__(self, index: UserIndex, chinese: bool, now: datetime) -> None:
        self._index = index
        self._chinese = chinese
        self._now = now

    def line(self, record: Summary | Fact | Message) -> str:
        """Write a record as one neutralised line."""
        if isinstance(record, Message):
            return self._turn(record)
        if isinstance(record, Summary):
            time = TimeRange(start=record.time.event_start, end=record.time.event_end)
            return self._noted(record.content, [self._span(time)])
        return self._fact(record)

    def _turn(self, message: Message) -> str:
        role = _ROLES.get(message.role, message.role) if self._chinese else message.role
        who = message.speaker or role
        if message.event_type != "message":
            who = f"{who}, {message.event_type}"
        day = f"{message.timestamp:%Y-%m-%d} " if message.timestamp else ""
        return neutralise(f"{day}{who}: {message.content}")

    def _fact(self, fact: Fact) -> str:
        about = "" if fact.subject == "user" or fact.subject in fact.content else fact.subject
        notes = [self._when(fact)]
        if fact.certainty == "inferred":
            notes.append("推测" if self._chinese else "a guess")
        return self._noted(f"{about}: {fact.content}" if about else fact.content, notes)

    def _when(self, fact: Fact) -> str:
        """Tell the time that a Fact speaks of and whether it is past, else since when it holds."""
        if fact.time_range is not None and (span := self._span(fact.time_range)):
            return span + self._past(fact)
        since = fact.valid_from or self._first_said(fact)
        if since is None:
            return ""
        return f"{since:%Y-%m-%d} 起" if self._chinese else f"since {since:%Y-%m-%d}"

    def _past(self, fact: Fact) -> str:
        time = fact.time_range
        over = time and (time.end or (time.start if fact.kind == "plan" else None))
        if over is None or not self._is_over(over):
            return ""
        return "，已过去" if self._chinese else ", past"

    def _is_over(self, moment: datetime) -> bool:
        """Tell whether a moment is past; a bare date is over when its day is."""
        if _is_date(moment):
            return self._now - moment >= timedelta(days=1)
        return moment < self._now

    def _first_said(self, fact: Fact) -> datetime | None:
        said = (self._index.get(message_id) for message_id in fact.source_message_ids)
        times = [m.timestamp for m in said if isinstance(m, Message) and m.timestamp is not None]
        return min(times, default=None)

    def _span(self, time: TimeRange) -> str:
        start, end = (_moment(m) if m else "" for m in (time.start, time.end))
        if start and end and start != end:
            return f"{start} – {end}"
        if end and not start:
            return f"{end} 止" if self._chinese else f"until {end}"
        return start

    def _noted(self, content: str, notes: list[str]) -> str:
        """Put the notes behind the content, where a long content can't push them out."""
        line = neutralise(content)
        told = [note for note in notes if note and note not in line]
        if not told:
            return line
        return f"{line}（{'，'.join(told)}）" if self._chinese else f"{line} ({', '.join(told)})"


def _is_date(moment: datetime) -> bool:
    return (moment.hour, moment.minute, moment.second) == (0, 0, 0)


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}" if _is_date(moment) else f"{moment:%Y-%m-%d %H:%M}"
