"""One user's records in memory: vectors, words and links, derived from the store."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from agently_gumem.errors import ConfigError
from agently_gumem.recall.lexical import Match, Postings
from agently_gumem.recall.question import asks, tells_when
from agently_gumem.recall.vectors import Vectors
from agently_gumem.records import Fact, Message, Summary, Topic
from agently_gumem.text import fold, is_chinese, words

Stored: TypeAlias = Message | Fact | Summary | Topic
Vector: TypeAlias = NDArray[np.float32]
D = TypeVar("D")

TURN, FACT, SUMMARY, TOPIC = range(4)
_KINDS: tuple[type[Stored], ...] = (Message, Fact, Summary, Topic)
_SERIALS = itertools.count()
_PAIRS = 512  # vectors widened at once when neighbours are compared: 2 MB
_RECORD_BYTES = 2_000  # a pydantic record of this package beside its text, by tracemalloc
_COLUMNS = (
    "kind",
    "chinese",
    "session",
    "sequence",
    "topic",
    "length",
    "who",  # speaker or role
    "asks",  # ends as a question
    "dated",  # holds a time, or a word for one
    "first",  # the days that it is of, as ordinals; -1 where it has none
    "last",
    "before",  # the row that `alike` was last compared with
)


def text_of(record: Stored) -> str:
    """Return the text that a record is found by; embed this, too."""
    if isinstance(record, Topic):
        return " ".join(part for part in (record.name, *record.aliases, record.description) if part)
    return record.content


def searched(record: Stored) -> str:
    """Return the text whose words find a record: with the ids of the objects that it is about."""
    if isinstance(record, Topic) or not record.anchors:
        return text_of(record)
    named = (f"{name} {value}" for name, value in record.anchors.items())
    return "\n".join([record.content, *named])


def _days(record: Stored) -> tuple[int, int]:
    """Return the first and last day that a record is of, as ordinals; -1 where it has none."""
    if isinstance(record, Message):
        first = last = record.timestamp
    elif isinstance(record, Fact) and record.time_range is not None:
        first, last = record.time_range.start, record.time_range.end
    elif isinstance(record, Summary):
        first, last = record.time.event_start, record.time.event_end
    else:
        first = last = None
    first, last = first or last, last or first
    if first is None or last is None:
        return -1, -1
    return first.toordinal(), last.toordinal()


class UserIndex:
    """The records of one user and space; not thread-safe, its owner serialises the calls.

    A record has a row in a float16 matrix and in a table of columns; both double when they are
    full, so putting one record costs its own size (amortised).
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._vectors = Vectors(dimension)
        self._alike = np.zeros(0, np.float32)
        self._citations: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None
        self._table = {name: np.zeros(0, np.int64) for name in _COLUMNS}
        self._rows: dict[str, int] = {}
        self._ids: list[str | None] = []
        self._free: list[int] = []
        self._messages: dict[str, Message] = {}
        self._facts: dict[str, Fact] = {}
        self._summaries: dict[str, Summary] = {}
        self._topics: dict[str, Topic] = {}
        self._layers: tuple[dict[str, Any], ...] = (
            self._messages,
            self._facts,
            self._summaries,
            self._topics,
        )
        self._postings = Postings()
        self._codes: dict[str, int] = {}
        self._speakers: Counter[str] = Counter()
        self._events: dict[str, dict[str, None]] = {}
        self._citing: dict[str, dict[str, None]] = {}
        self._replaced: dict[str, dict[str, None]] = {}
        self._text_bytes = 0
        self._last_sequence = -1
        self._ordered = True
        self.changes = 0
        """Rises with each change: what is derived from the index holds while it stays."""
        self._derived: dict[str, tuple[int, Any]] = {}
        self._joined: tuple[Any, UserIndex] | None = None
        self.serial = next(_SERIALS)
        """Its own number in this process."""

    def derived(self, name: str, make: Callable[[], D]) -> D:
        """Return what was made of the index, made anew only after a change of it."""
        held = self._derived.get(name)
        if held is None or held[0] != self.changes:
            self._derived = {k: v for k, v in self._derived.items() if v[0] == self.changes}
            held = self._derived[name] = (self.changes, make())
        return held[1]

    def joined(self, key: Any, make: "Callable[[], UserIndex]") -> "UserIndex":
        """Return the one index that was made of this and others, made anew for another key."""
        if self._joined is None or self._joined[0] != key:
            self._joined = (key, make())
        return self._joined[1]

    def put(self, records: Sequence[Stored], vectors: Sequence[Vector | None] | Vector) -> None:
        """Add records, or replace those of the same id.

        Args:
            records: Of any layer.
            vectors: One a record, (dimension,), L2-normalised; None keeps the vector that the
                record has, and leaves a new one to be found by its words alone.

        Raises:
            ConfigError: The vectors are not one a record, or of another dimension.
        """
        if len(records) != len(vectors):
            raise ConfigError(f"{len(records)} records need as many vectors, not {len(vectors)}")
        self.changes += 1
        for record, vector in zip(records, vectors, strict=True):
            if vector is not None and vector.shape != (self.dimension,):
                raise ConfigError(
                    f"a vector of shape {vector.shape} does not fit an index of dimension "
                    f"{self.dimension}; embed with the embedder that the store was made with"
                )
            self._put(record, vector)
        if not self._ordered:
            self._sort()

    def drop(self, ids: Iterable[str]) -> None:
        """Take records out; an id that is not there is passed over."""
        self.changes += 1
        for record_id in ids:
            row = self._rows.pop(record_id, None)
            if row is None:
                continue
            record = self._layers[int(self._table["kind"][row])].pop(record_id)
            self._unlink(record, row)
            self._set_vector(row, None)
            self._describe(row, **dict.fromkeys(_COLUMNS, -1))
            self._ids[row] = None
            self._free.append(row)

    def _put(self, record: Stored, vector: Vector | None) -> None:
        kind = _KINDS.index(type(record))
        row = self._rows.get(record.id)
        if row is not None and self._table["kind"][row] != kind:
            self.drop([record.id])
            row = None
        if isinstance(record, Message):
            self._keep_order(record)
        if row is None:
            row = self._new_row(record.id)
        else:
            self._unlink(self._layers[kind][record.id], row, keep=searched(record))
        if vector is not None:
            self._set_vector(row, vector)
        self._layers[kind][record.id] = record
        self._link(record, row, kind)

    def _keep_order(self, message: Message) -> None:
        """Note whether messages are no longer in order; one that is replaced keeps its place."""
        held = self._messages.get(message.id)
        if held is None:
            self._ordered = self._ordered and message.sequence >= self._last_sequence
            self._last_sequence = max(self._last_sequence, message.sequence)
        elif held.sequence != message.sequence:
            self._ordered = False

    def _sort(self) -> None:
        ordered = sorted(self._messages.values(), key=lambda message: message.sequence)
        self._messages.clear()
        self._messages.update((message.id, message) for message in ordered)
        self._ordered = True

    def _new_row(self, record_id: str) -> int:
        if self._free:
            row = self._free.pop()
        else:
            row = len(self._ids)
            self._ids.append(None)
            if row == len(self._table["kind"]):
                self._grow(max(64, 2 * row))
            self._vectors.set(row, None)
        self._rows[record_id] = row
        self._ids[row] = record_id
        return row

    def _grow(self, size: int) -> None:
        for name, column in self._table.items():
            self._table[name] = np.full(size, -1, np.int64)
            self._table[name][: len(column)] = column
        alike, self._alike = self._alike, np.zeros(size, np.float32)
        self._alike[: len(alike)] = alike

    def _describe(self, row: int, **values: int) -> None:
        for name, value in values.items():
            self._table[name][row] = value

    def _set_vector(self, row: int, vector: Vector | None) -> None:
        self._vectors.set(row, vector)
        before = self.column("before")
        before[row] = -1
        before[before == row] = -1

    def _link(self, record: Stored, row: int, kind: int) -> None:
        text = text_of(record)
        if kind == FACT or record.id in self._citing:
            self._citations = None
        if row not in self._postings:
            found_by = searched(record)
            self._postings.add(row, found_by)
            self._text_bytes += 2 * len(found_by) + _RECORD_BYTES
        session, sequence, topic, who = -1, 0, -1, -1
        if isinstance(record, Message):
            session, sequence = self.code(record.session_id), record.sequence
            who = self.code(record.speaker or record.role)
            self._speakers[record.speaker] += 1
            if record.event_type != "message":
                self._events.setdefault(record.event_type, {})[record.id] = None
        elif isinstance(record, Topic):
            topic = self.code(fold(record.name))
        else:
            topic = self.code(fold(record.topic)) if record.topic else -1
        first, last = _days(record)
        self._describe(
            row,
            kind=kind,
            chinese=is_chinese(text),
            session=session,
            sequence=sequence,
            topic=topic,
            length=self._postings.length(row),
            who=who,
            asks=asks(text),
            dated=tells_when(text) or (isinstance(record, Fact) and record.time_range is not None),
            first=first,
            last=last,
        )
        for links, targets in self._links(record):
            for target in targets:
                links.setdefault(target, {})[record.id] = None

    def _unlink(self, record: Stored, row: int, keep: str | None = None) -> None:
        """Undo `_link`; words that stay the same (`keep`) are left where they are."""
        text = searched(record)
        if record.id in self._citing or isinstance(record, Fact):
            self._citations = None
        if isinstance(record, Message):
            self._speakers[record.speaker] -= 1
            self._events.get(record.event_type, {}).pop(record.id, None)
        if text != keep:
            self._postings.remove(row, text)
            self._text_bytes -= 2 * len(text) + _RECORD_BYTES
        for links, targets in self._links(record):
            for target in targets:
                holders = links.get(target, {})
                holders.pop(record.id, None)
                if not holders:
                    links.pop(target, None)

    def _links(self, record: Stored) -> list[tuple[dict[str, dict[str, None]], Sequence[str]]]:
        if isinstance(record, Fact):
            successor = [record.superseded_by] if record.superseded_by else []
            return [(self._citing, record.source_message_ids), (self._replaced, successor)]
        return []

    def known_code(self, name: str) -> int:
        """Return the number of a session, speaker, role or folded topic name; -2 of no record's."""
        return self._codes.get(name, -2)

    def code(self, name: str) -> int:
        """Return the number that stands for such a name in the columns."""
        return self._codes.setdefault(name, len(self._codes))

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, record_id: str) -> Stored | None:
        """Return the record of that id, of any layer, or None."""
        row = self._rows.get(record_id)
        return None if row is None else self._layers[int(self._table["kind"][row])][record_id]

    def vector(self, record_id: str) -> Vector | None:
        """Return a record's vector, (dimension,), as precise as it is kept, or None."""
        row = self._rows.get(record_id)
        return None if row is None else self._vectors.get(row)

    @property
    def messages(self) -> Mapping[str, Message]:
        """Messages by id, in the order of their sequence."""
        return MappingProxyType(self._messages)

    @property
    def facts(self) -> Mapping[str, Fact]:
        """Facts by id, of any validity."""
        return MappingProxyType(self._facts)

    @property
    def summaries(self) -> Mapping[str, Summary]:
        """Summaries by id, of any validity."""
        return MappingProxyType(self._summaries)

    @property
    def topics(self) -> Mapping[str, Topic]:
        """Topics by id."""
        return MappingProxyType(self._topics)

    @property
    def nbytes(self) -> int:
        """Approximate bytes held, records included: what eviction goes by."""
        table = sum(column.nbytes for column in self._table.values())
        columns = self._vectors.nbytes + self._alike.nbytes + table
        beside = self._joined[1].nbytes if self._joined is not None else 0
        return columns + self._postings.nbytes + self._text_bytes + beside

    @property
    def speakers(self) -> list[str]:
        """The names of those who speak in the messages."""
        return [name for name, count in self._speakers.items() if name and count > 0]

    def events(self, event_type: str) -> list[Message]:
        """Return the messages of an event type other than "message", in their order."""
        found = (self._messages[message_id] for message_id in self._events.get(event_type, ()))
        return sorted(found, key=lambda message: message.sequence)

    def citing(self, message_id: str) -> list[Fact]:
        """Return the Facts, of any validity, that name this message as a source."""
        return [self._facts[fact_id] for fact_id in self._citing.get(message_id, ())]

    @property
    def superseding(self) -> bool:
        """Tell whether any Fact was superseded, also by one that was forgotten since."""
        return bool(self._replaced) or self.derived("ended", self._any_ended)

    def _any_ended(self) -> bool:
        return any(fact.validity == "deprecated" for fact in self._facts.values())

    def supersedes(self, fact_id: str) -> bool:
        """Tell whether another Fact points to this one as its successor."""
        return fact_id in self._replaced

    def replaced_by(self, fact_id: str) -> list[Fact]:
        """Return the Facts that point to this one as their successor."""
        return [self._facts[i] for i in self._replaced.get(fact_id, ()) if i in self._facts]

    def replaced(self) -> list[Fact]:
        """Return all Facts that point to a successor."""
        return [self._facts[i] for ids in self._replaced.values() for i in ids]

    def record_at(self, row: int) -> Stored:
        """Return the record of a row in use."""
        record_id = self._ids[row]
        if record_id is None:
            raise IndexError(row)
        record: Stored = self._layers[int(self._table["kind"][row])][record_id]
        return record

    def citations(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return who cites whom as two columns of rows: active Facts, and the turns they name."""
        if self._citations is None:
            pairs = [
                (self._rows[fact_id], self._rows[message_id])
                for message_id, fact_ids in self._citing.items()
                if message_id in self._messages
                for fact_id in fact_ids
                if self._facts[fact_id].validity == "active"
            ]
            self._citations = (
                np.array([fact for fact, _ in pairs], np.intp),
                np.array([message for _, message in pairs], np.intp),
            )
        return self._citations

    def row(self, record_id: str) -> int | None:
        """Return the row of a record, or None."""
        return self._rows.get(record_id)

    def row_of(self, record_id: str) -> int:
        """Return the row of a record that is there; KeyError where it is not."""
        return self._rows[record_id]

    def rows(self, kind: int) -> NDArray[np.intp]:
        """Return the rows of one layer; turns stand by session, in the order of sequence."""
        rows = np.flatnonzero(self.column("kind") == kind)
        if kind != TURN:
            return rows
        return rows[np.lexsort((self.column("sequence")[rows], self.column("session")[rows]))]

    def column(self, name: str) -> NDArray[np.int64]:
        """Return a column of the table, one value a row, by one of the names at the top."""
        return self._table[name][: len(self._ids)]

    def cosine(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the dot products of (n, dimension) vectors with every row: (n, rows)."""
        return self._vectors.dot(vectors, len(self._ids))

    def alike(self, rows: NDArray[np.intp], before: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the cosine of each row with the one before it: computed once for a pair.

        Args:
            rows: (n,) rows.
            before: (n,) the row before each; -1 gives 0.
        """
        known = self.column("before")
        stale = np.flatnonzero((before >= 0) & (known[rows] != before))
        for part in np.array_split(stale, len(stale) // _PAIRS + 1):
            mine, other = rows[part], before[part]
            pairs = self._vectors.rows(mine) * self._vectors.rows(other)
            self._alike[mine] = pairs.sum(axis=1)
            known[mine] = other
        return np.where(before >= 0, self._alike[rows], np.float32(0))

    def match(self, text: str) -> Match:
        """Score the words of a text against every row."""
        return self._postings.match(words(text), self.column("length"))

    def common(self, term: str) -> bool:
        """Tell whether a term, as `text.words` gives it, is all over the records."""
        return self._postings.common(term)

    def knows(self, term: str) -> bool:
        """Tell whether any record holds a term, as `text.words` gives it."""
        return self._postings.knows(term)
