"""What the benchmark of size is made of: users, what they say and ask, vectors, and two clocks."""

import random
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_VERBS = ("walked", "cycled", "rowed", "skated", "hiked", "swam", "jogged", "climbed", "sailed")
_NAMES = ("Ada", "Ben", "Cora", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "Jana", "Karl", "Lena")
_PLACES = ("Aasen", "Borken", "Calw", "Delft", "Emden", "Fulda", "Gera", "Halle", "Jena", "Moers")
_TAILS = (
    "the rain stopped late",
    "we shared a pot of soup",
    "my left shoe gave up",
    "the ferry was full",
    "a heron stood by the weir",
    "nobody had brought a map",
    "the bakery was still open",
    "we talked about the new flat",
)
_WORDS = 4096


@dataclass(frozen=True)
class Said:
    """One thing that a user says, and the question that it answers."""

    text: str
    question: str


def said(user: int, place: int) -> Said:
    """Make the message of a user at a place: always the same, and no two of a user alike."""
    draw = random.Random(f"{user}/{place}")
    verb, name, town = draw.choice(_VERBS), draw.choice(_NAMES), draw.choice(_PLACES)
    return Said(
        f"In week {place} I {verb} {draw.randint(2, 99)} km with {name} near {town}, "
        f"and {draw.choice(_TAILS)}.",
        f"How far was it when I {verb} with {name} near {town} in week {place}?",
    )


def name_of(user: int) -> str:
    """Name a user."""
    return f"user-{user}"


class WordVectors:
    """Embeds a text as the sum of a fixed vector a word: cheap, and near where words are shared.

    Args:
        dimension: Length of a vector.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._table = np.random.default_rng(7).standard_normal((_WORDS, dimension), np.float32)
        self.ms = 0.0
        """CPU milliseconds spent in here so far."""

    def name(self) -> str:
        """Return the name that is recorded in a store."""
        return f"word-vectors-{self.dimension}"

    def __call__(self, input: list[str]) -> list[NDArray[np.float32]]:
        """Embed texts, and add up the time of it."""
        began = time.thread_time()
        vectors = [self._vector(text) for text in input]
        self.ms += (time.thread_time() - began) * 1000
        return vectors

    def _vector(self, text: str) -> NDArray[np.float32]:
        rows = [zlib.crc32(w.encode()) % _WORDS for w in text.lower().split()]
        vector: NDArray[np.float32] = self._table[rows].sum(axis=0)
        return vector / (float(np.linalg.norm(vector)) or 1.0)


class TimedClient:
    """A Chroma client whose collections add up calls and CPU time; all else is the client's own."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.ms = 0.0
        self.calls = 0
        self.reads = 0
        """Calls of `get`: one in the time of a recall says that the user was not in memory."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_or_create_collection(self, *args: Any, **named: Any) -> "_TimedCollection":
        """Open a collection that is timed."""
        return _TimedCollection(self._client.get_or_create_collection(*args, **named), self)

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Time a method of a collection."""

        def wrapped(*args: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return call(*args, **named)
            finally:
                self.ms += (time.process_time() - began) * 1000
                self.calls += 1
                self.reads += call.__name__ == "get"

        return wrapped


class _TimedCollection:
    def __init__(self, collection: Any, client: TimedClient) -> None:
        self._collection = collection
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._collection, name)
        return self._client.timed(found) if name in ("get", "upsert", "delete") else found


def facts_of(topics: int) -> Callable[[Any], Mapping[str, Any]]:
    """Answer the memory's requests: each message a Fact, spread over topics; plain Summaries."""

    def answer(request: Any) -> Mapping[str, Any]:
        if request.memory_stage == "summarize":
            return {"summaries": _summaries(request), "same_topics": []}
        return {"facts": _facts(request, topics), "memo": []}

    return answer


def _facts(request: Any, topics: int) -> list[dict[str, Any]]:
    told = [m for m in request.data["NEW MESSAGES"] if m["role"] == "user"]
    return [
        {
            "ref": f"f{place}",
            "content": message["text"],
            "sources": [message["ref"]],
            "topic": f"tours {zlib.crc32(message['text'].encode()) % topics}",
        }
        for place, message in enumerate(told, 1)
    ]


def _summaries(request: Any) -> list[dict[str, Any]]:
    facts: dict[str, list[Any]] = {}
    for fact in request.data["FACTS"]:
        facts.setdefault(fact.get("topic", ""), []).append(fact)
    return [
        {
            "topic": topic,
            "content": " ".join(f["content"] for f in own[:3]),
            "facts": [f["ref"] for f in own[:3]],
        }
        for topic, own in facts.items()
    ]
