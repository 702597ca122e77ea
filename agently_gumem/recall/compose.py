"""The text of one recall: the memo, then the most relevant first, as much as fits the budget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agently_gumem.config import RecallConfig
from agently_gumem.prompts import Prompts
from agently_gumem.recall.frame import neutralise
from agently_gumem.recall.index import UserIndex
from agently_gumem.recall.lines import Writer
from agently_gumem.recall.memo import CountTokens, bound_memo, render_memo
from agently_gumem.recall.overlap import Told, stands_for
from agently_gumem.recall.rank import Hit
from agently_gumem.records import ContextItem, Fact, MemoryContext, Message, Summary
from agently_gumem.text import is_chinese, words

__all__ = ["bound_memo", "compose", "neutralise", "render_memo"]

LAYERS = ("summary", "fact", "turn")
_SHORTEST = 4  # tokens; no line that says something is shorter


@dataclass(frozen=True)
class _Shown:
    """A hit with its record and its line."""

    hit: Hit
    record: Summary | Fact | Message
    line: str


@dataclass(frozen=True)
class _Layout:
    """Renders a choice of items; the text is counted as it will stand."""

    prompts: Prompts
    count_tokens: CountTokens
    chinese: bool
    budget: int

    def render(self, memo: Sequence[str], shown: Sequence[_Shown]) -> str:
        if not memo and not shown:
            return ""
        items = [(one.hit.layer, one.line) for one in shown]
        lines = [(layer, [line for of, line in items if of == layer]) for layer in LAYERS]
        return self.prompts.render(
            "context",
            memo=memo,
            items=items,
            layers=[(layer, group) for layer, group in lines if group],
            chinese=self.chinese,
        )

    def fits(self, memo: Sequence[str], shown: Sequence[_Shown]) -> bool:
        return self.count_tokens(self.render(memo, shown)) <= self.budget


def compose(
    index: UserIndex,
    hits: Sequence[Hit],
    *,
    memo_text: str,
    query: str,
    config: RecallConfig,
    count_tokens: CountTokens,
    prompts: Prompts,
    now: datetime,
    recent: Sequence[Message] = (),
    past: bool = False,
) -> MemoryContext:
    """Compose what one question's prompt gets.

    Args:
        index: The user's records.
        hits: What `rank` gives, best first.
        memo_text: The memo as `render_memo` gives it, already within its own budget.
        query: The question.
        config: `max_tokens` bounds the whole text.
        count_tokens: Counts the tokens of a text.
        prompts: Has the template `context`.
        now: The moment of the question: what ended before is said to be past.
        recent: The session's newest messages that are no longer in the window.
        past: The question asks for what held before.
    """
    records = _records(index, hits)
    sample = " ".join([memo_text, *(record.content for record in records.values())])
    layout = _Layout(prompts, count_tokens, is_chinese(sample), config.max_tokens)
    memo = _fitting_memo(layout, memo_text)
    past = past or config.as_of is not None
    writer = Writer(index, layout.chinese, now, past=past)
    known = [hit for hit in hits if hit.id in records]
    tellers = _tellers(known, records, past=past)

    def write(hit: Hit) -> _Shown:
        return _Shown(hit, records[hit.id], writer.line(records[hit.id]))

    asked = words(query, stop=False)
    telling = [hit for hit in known if not _repeats(records[hit.id], asked)]
    shown = _fitting(layout, memo, _tellers_first(telling, tellers), tellers, write)
    text = layout.render(memo, shown)
    items = [_item(one) for one in shown]
    head = [ContextItem(layer="memo", id="memo", text="\n".join(memo))] if memo else []
    return MemoryContext(
        query=query,
        short_term_context=list(recent),
        mid_term_context=items,
        long_term_user_context=memo_text,
        formatted_context=text,
        tokens=count_tokens(text) if text else 0,
        abstained=not known,
        items=head + items,
    )


def _repeats(record: Summary | Fact | Message, asked: Sequence[str]) -> bool:
    """Tell whether a turn is the question word by word: it answers nothing."""
    return isinstance(record, Message) and words(record.content, stop=False) == asked


def _records(index: UserIndex, hits: Sequence[Hit]) -> dict[str, Summary | Fact | Message]:
    found = {hit.id: index.get(hit.id) for hit in hits}
    return {i: r for i, r in found.items() if isinstance(r, Summary | Fact | Message)}


def _tellers(
    hits: Sequence[Hit], records: Mapping[str, Summary | Fact | Message], *, past: bool
) -> dict[str, set[str]]:
    """Find, by id, which hits stand for which: a Summary for its Facts, a Fact for its turns.

    Both only where they hold the specifics of the other. The line of a Fact that no longer holds
    tells its successor as well.
    """
    tellers: dict[str, set[str]] = {}
    for hit in hits:
        record = records[hit.id]
        for told_id in _rests_on(record):
            if told_id in records and _tells(record, records[told_id]):
                tellers.setdefault(told_id, set()).add(hit.id)
        if past and isinstance(record, Fact) and _ends(records.get(record.superseded_by)):
            tellers.setdefault(record.superseded_by, set()).add(hit.id)
    return tellers


def _ends(record: Summary | Fact | Message | None) -> bool:
    """Tell whether a record is the end of a chain: one between tells its own successor."""
    return isinstance(record, Fact) and record.validity == "active"


def _tellers_first(hits: Sequence[Hit], tellers: Mapping[str, set[str]]) -> list[Hit]:
    """Keep the order, but let a hit that stands for an earlier one come directly before it."""
    places = {hit.id: place for place, hit in enumerate(hits)}
    for layer in reversed(LAYERS):
        for hit in (hit for hit in hits if hit.layer == layer):
            for teller in tellers.get(hit.id, ()):
                places[teller] = min(places[teller], places[hit.id])
    return sorted(
        hits, key=lambda hit: (places[hit.id], LAYERS.index(hit.layer), hit.id in tellers)
    )


def _rests_on(record: Summary | Fact | Message) -> Sequence[str]:
    if isinstance(record, Summary):
        return record.source_facts
    return record.source_message_ids if isinstance(record, Fact) else ()


def _tells(record: Summary | Fact | Message, told: Summary | Fact | Message) -> bool:
    entities = told.entities if isinstance(told, Fact) else ()
    return stands_for(record.content, told.content, entities)


def _fitting_memo(layout: _Layout, memo_text: str) -> list[str]:
    """Keep the memo whole where it fits with its frame, else whole lines from its start."""
    lines = [neutralise(line, None) for line in memo_text.splitlines() if line.strip()]
    while lines and not layout.fits(lines, ()):
        lines.pop()
    return lines


def _fitting(
    layout: _Layout,
    memo: Sequence[str],
    told: Sequence[Hit],
    tellers: Mapping[str, set[str]],
    write: Callable[[Hit], _Shown],
) -> list[_Shown]:
    """Take items, best first, while they fit; nothing twice, what is too long is passed over.

    Lines are counted one by one; then the text as it will stand is counted, and the last taken
    goes until it fits: a tokenizer's count of a whole need not be the sum of its parts.
    """
    left = layout.budget - layout.count_tokens(layout.render(memo, ()))
    chosen: list[_Shown] = []
    said, taken = Told(line.removeprefix("- ") for line in memo), set[str]()
    for hit in told:
        if left < _SHORTEST:
            break
        if not taken.isdisjoint(tellers.get(hit.id, ())):
            continue
        one = write(hit)
        cost = layout.count_tokens(f"- {one.line}\n")
        told_text = _said(one)
        if cost <= left and not said.says(told_text):
            chosen.append(one)
            said.add(told_text)
            taken.add(hit.id)
            left -= cost
    while chosen and not layout.fits(memo, chosen):
        chosen.pop()
    return chosen


def _said(one: _Shown) -> str:
    """Return what counts as said: of a Fact that no longer holds the line, dates and all.

    A value that came back has the same words as the one that was given up.
    """
    over = isinstance(one.record, Fact) and one.record.validity == "deprecated"
    return one.line if over else one.record.content


def _item(one: _Shown) -> ContextItem:
    return ContextItem.model_construct(  # ours throughout: nothing to check
        layer=one.hit.layer,
        id=one.hit.id,
        text=one.line,
        score=one.hit.score,
        parts=one.hit.parts,
        source_message_ids=list(one.hit.source_message_ids),
    )
