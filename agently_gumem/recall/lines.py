"""Each record as one line of the text, with its dates."""

from datetime import datetime, timedelta

from agently_gumem.recall.frame import neutralise
from agently_gumem.recall.index import UserIndex
from agently_gumem.recall.outdated import before, without
from agently_gumem.records import Fact, Message, Summary, TimeRange, earliest

_ROLES = {"user": "用户", "assistant": "助手", "system": "系统", "operator": "操作员"}
_OF_A_CHANGE = 250  # characters of each of the two Facts in the line of a change


class Writer:
    """Writes lines in the language of the memory, as of one moment."""

    def __init__(
        self, index: UserIndex, chinese: bool, now: datetime, *, past: bool = False
    ) -> None:
        self._index = index
        self._chinese = chinese
        self._now = now
        self._past_asked = past

    def line(self, record: Summary | Fact | Message) -> str:
        """Write a record as one neutralised line."""
        if isinstance(record, Message):
            return self._turn(record)
        if isinstance(record, Summary):
            time = TimeRange(start=record.time.event_start, end=record.time.event_end)
            notes = [self._span(time), self._about(record, self._told_by(record))]
            return self._noted(self._present(record), notes)
        if self._past_asked and record.validity == "deprecated":
            return self._change(record)
        return self._fact(record)

    def _present(self, record: Summary | Fact) -> str:
        """Tell a Fact or a Summary without the values before it, unless these are asked for."""
        if self._past_asked or not self._index.superseding:
            return record.content
        facts = [record] if isinstance(record, Fact) else self._facts_of(record)
        olds = [old.content for fact in facts for old in before(self._index, fact)]
        return without(record.content, olds) if olds else record.content

    def _facts_of(self, summary: Summary) -> list[Fact]:
        known = self._index.facts
        return [known[i] for i in summary.source_facts if i in known]

    def _told_by(self, summary: Summary) -> str:
        return " ".join(fact.content for fact in self._facts_of(summary))

    def _change(self, fact: Fact) -> str:
        """Write what held before, and what took its place, each with its time."""
        after = self._index.facts.get(fact.superseded_by)
        start = self._begins(fact)
        end = self._begins(after) if after else fact.valid_to
        old = f"{self._until(start, end)}{neutralise(fact.content, _OF_A_CHANGE)}"
        if after is None:
            return neutralise(old, None)
        new = f"{self._since(end, after)}{neutralise(after.content, _OF_A_CHANGE)}"
        return neutralise(f"{old}；{new}" if self._chinese else f"{old}; {new}", None)

    def _until(self, start: datetime | None, end: datetime | None) -> str:
        if end is None:
            return "此前：" if self._chinese else "earlier: "
        if start is None:
            return f"至 {_day(end)}：" if self._chinese else f"until {_day(end)}: "
        return self._from_to(start, end)

    def _since(self, start: datetime | None, fact: Fact) -> str:
        if start is None:
            return "后来：" if self._chinese else "later: "
        if fact.validity == "deprecated" and fact.valid_to is not None:
            return self._from_to(start, fact.valid_to)
        return f"{_day(start)} 起：" if self._chinese else f"since {_day(start)}: "

    def _from_to(self, start: datetime, end: datetime) -> str:
        """Write two days, or two times where both are of one day."""
        first, last = _day(start), _day(end)
        if first == last:
            first, last = f"{first} {start:%H:%M}", f"{last} {end:%H:%M}"
        return f"{first} 至 {last}：" if self._chinese else f"{first} to {last}: "

    def _turn(self, message: Message) -> str:
        role = _ROLES.get(message.role, message.role) if self._chinese else message.role
        who = message.speaker or role
        if message.event_type != "message":
            who = f"{who}, {message.event_type}"
        day = f"{message.timestamp:%Y-%m-%d} " if message.timestamp else ""
        return self._noted(f"{day}{who}: {message.content}", [self._about(message)])

    def _about(self, record: Summary | Fact | Message, told: str = "") -> str:
        """Name the objects that a record is about, where its text does not."""
        text = f"{record.content} {told}".casefold()
        named = [f"{k}: {v}" for k, v in record.anchors.items() if v.casefold() not in text]
        return ", ".join(named)

    def _fact(self, fact: Fact) -> str:
        about = "" if fact.subject == "user" or fact.subject in fact.content else fact.subject
        notes = [self._when(fact)]
        if fact.certainty == "inferred":
            notes.append("推测" if self._chinese else "a guess")
        notes.append(self._about(fact))
        content = self._present(fact)
        return self._noted(f"{about}: {content}" if about else content, notes)

    def _when(self, fact: Fact) -> str:
        """Tell the time that a Fact speaks of and whether it is past, else since when it holds."""
        if fact.time_range is not None and (span := self._span(fact.time_range)):
            return span + self._past(fact)
        since = self._begins(fact)
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

    def _begins(self, fact: Fact) -> datetime | None:
        """Tell since when a Fact holds; where that is not known, when it was first said."""
        if fact.valid_from is not None:
            return fact.valid_from
        said = (self._index.get(message_id) for message_id in fact.source_message_ids)
        return earliest(m.timestamp for m in said if isinstance(m, Message))

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


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def _is_date(moment: datetime) -> bool:
    return (moment.hour, moment.minute, moment.second) == (0, 0, 0)


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}" if _is_date(moment) else f"{moment:%Y-%m-%d %H:%M}"
