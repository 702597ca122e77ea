"""The parts of the benchmark of size that run in a process of their own, so that memory is theirs.

Each is one function of the options that gives plain figures.
"""

import random
import resource
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _report import cpu_ms, median, percentile
from _scale_data import TimedClient, WordVectors, facts_of, name_of, said

from agently_gumem import GUMem
from agently_gumem.testing import ScriptedModel

_DIGESTS = 15
_TURNS_A_DIGEST = 6
_CHROMA_BATCH = 5_000
_CHAT = 20
Figures = dict[str, Any]


def build(options: Namespace) -> Figures:
    """Add every user's messages, a user a call; users come in a random order."""
    vectors = WordVectors(options.dimension)
    each = options.records // options.users
    began = time.process_time()
    with GUMem(options.folder, embedding_function=vectors, shards=options.shards) as gumem:
        for user in _order(options.users, "build"):
            texts = [said(user, place).text for place in range(each)]
            gumem.user(name_of(user)).add_messages([{"content": t} for t in texts], "past")
    seconds = time.process_time() - began
    return {"build_s": seconds, "build_rss": _rss(), "build_embed_s": vectors.ms / 1000}


def _order(users: int, seed: str) -> list[int]:
    order = list(range(users))
    random.Random(seed).shuffle(order)
    return order


def _rss() -> float:
    """Return the most memory that the process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _disk(folder: str) -> float:
    """Return the MB of a folder's files."""
    return sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file()) / 1e6


class _Clock:
    """CPU milliseconds of a call, apart from embedding; and what the store took of them."""

    def __init__(self, vectors: WordVectors, client: TimedClient) -> None:
        self._vectors, self._client = vectors, client
        self.store = 0.0
        self.loaded = False

    def __call__(self, call: Callable[[], Any]) -> float:
        embedding, store, reads = self._vectors.ms, self._client.ms, self._client.reads
        spent = cpu_ms(call)
        self.store = self._client.ms - store
        self.loaded = self._client.reads > reads
        return spent - (self._vectors.ms - embedding)


def _pair(user: int, turn: int) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": said(user, turn).text},
        {"role": "assistant", "content": f"Noted, that was week {turn}."},
    ]


def measure(options: Namespace) -> Figures:
    """Open the store anew and let users come at random: recall, journal, digest, memory."""
    import chromadb

    figures: Figures = {}
    vectors, opened = WordVectors(options.dimension), dict[str, Any]()

    def start() -> None:
        opened["client"] = TimedClient(chromadb.PersistentClient(options.folder))
        opened["gumem"] = GUMem(
            client=opened["client"],
            embedding_function=vectors,
            limits={"index_bytes": 256 * 2**20, "digest_messages": 40},
            model_settings={"OpenAICompatible": options.model.settings},
        )

    figures["open_ms"] = cpu_ms(start)
    gumem, clock = opened["gumem"], _Clock(vectors, opened["client"])
    figures |= _arrivals(gumem, clock, options)
    figures["rss"] = _rss()
    figures |= _digests(gumem, clock, options)
    gumem.close()
    opened["client"].close()
    figures["disk_mb"] = _disk(options.folder)
    return figures


def _arrivals(gumem: GUMem, clock: _Clock, options: Namespace) -> Figures:
    """Let users come at random, two turns each; who is cold is told by a read of the store."""
    draw, each = random.Random("arrivals"), options.records // options.users
    turns: dict[int, int] = {}
    took: dict[str, list[float]] = {k: [] for k in ("cold", "turn", "load", "warm", "journal")}
    nobody = gumem.user("nobody")
    first_turn = clock(lambda: nobody.add_messages(_pair(0, 0))) + clock(
        lambda: nobody.query(said(0, 0).question)
    )
    for _ in range(options.arrivals):
        number = draw.randrange(options.users)
        user, turn = gumem.user(name_of(number)), turns.get(number, each)
        turns[number] = turn + 2
        first = clock(lambda u=user, n=number, t=turn: u.query(said(n, t // 2).question))
        cold, load = clock.loaded, clock.store
        stored = clock(lambda u=user, n=number, t=turn: u.add_messages(_pair(n, t), "now"))
        if cold:
            took["cold"].append(first)
            took["load"].append(load)
            took["turn"].append(first + stored)
        took["journal"].append(stored)
        took["warm"].append(clock(lambda u=user, n=number, t=turn: u.query(said(n, t).question)))
    return {
        "arrivals": options.arrivals,
        "process_ms": first_turn,
        "cold_users": len(took["cold"]),
        **{f"{k}_p50": median(v) for k, v in took.items()},
        **{f"{k}_p95": percentile(v, 0.95) for k, v in took.items() if v},
    }


def _digests(gumem: GUMem, clock: _Clock, options: Namespace) -> Figures:
    """Digest six messages into six Facts, of users whose earlier messages are digested already."""
    writes: list[float] = []
    whole: list[float] = []
    for number in _order(options.users, "digests")[:_DIGESTS]:
        user = gumem.user(name_of(number))
        user.digest()
        start = 10_000
        user.add_messages(
            [{"content": said(number, start + i).text} for i in range(_TURNS_A_DIGEST)], "now"
        )
        whole.append(clock(user.digest))
        writes.append(clock.store)
    return {"digest_p50": median(whole), "digest_write_p50": median(writes)}


def plain(options: Namespace) -> Figures:
    """Keep the same texts and vectors in one collection, and ask it for one user's nearest."""
    import chromadb

    vectors, each = WordVectors(options.dimension), options.records // options.users
    client = chromadb.PersistentClient(options.folder)
    collection = client.get_or_create_collection(
        "plain", embedding_function=None, configuration={"hnsw": {"space": "ip"}}
    )
    began = time.process_time()
    order = _order(options.users, "build")
    at_once = max(1, _CHROMA_BATCH // each)
    for start in range(0, len(order), at_once):
        some = order[start : start + at_once]
        _add(collection, vectors, [(user, place) for user in some for place in range(each)])
    built = time.process_time() - began
    draw, took = random.Random("arrivals"), list[float]()
    for turn in range(options.plain_queries):
        user = draw.randrange(options.users)
        _add(collection, vectors, [(user, each + turn)])
        vector = vectors([said(user, turn).question])
        took.append(
            cpu_ms(
                lambda v=vector, u=user: collection.query(
                    query_embeddings=v, where={"user": name_of(u)}, n_results=10
                )
            )
        )
    return {
        "plain_build_s": built,
        "plain_p50": median(took),
        "plain_p95": percentile(took, 0.95),
        "plain_rss": _rss(),
        "plain_disk_mb": _disk(options.folder),
    }


def _add(collection: Any, vectors: WordVectors, places: Sequence[tuple[int, int]]) -> None:
    texts = [said(*place).text for place in places]
    collection.upsert(
        ids=[f"{user}/{place}" for user, place in places],
        documents=texts,
        embeddings=vectors(texts),
        metadatas=[{"user": name_of(user)} for user, _ in places],
    )


def one_user(options: Namespace) -> Figures:
    """Ask a user of so many records, Facts and Summaries among them, a question after a write."""
    import chromadb

    vectors = WordVectors(options.dimension)
    client = TimedClient(chromadb.PersistentClient(options.folder))
    with GUMem(
        client=client,
        embedding_function=vectors,
        model_settings={"OpenAICompatible": options.model.settings},
    ) as gumem:
        user, clock = gumem.user("alice"), _Clock(vectors, client)
        place = 0
        # The questions are asked half below and half above that size: each comes after a write.
        while _held(user) < options.records - options.questions:
            talk = [m for i in range(place, place + _CHAT) for m in _pair(0, i)]
            user.add_messages(talk, f"chat-{place}", digest=True)
            place += _CHAT
        before = _held(user)
        warm, same = list[float](), list[float]()
        for turn in range(options.questions):
            user.add_messages(_pair(0, place + turn), "now")
            asked = said(0, place + turn - 7).question
            warm.append(clock(lambda q=asked: user.query(q, "now")))
            same.append(clock(lambda q=asked: user.query(q + " Tell me.", "now")))
        held = f"{before}-{_held(user)}"
        counts = {k: user.status()[k] for k in ("messages", "facts", "summaries", "topics")}
    return {
        "records": held,
        **counts,
        "after_write_p50": median(warm),
        "after_write_p95": percentile(warm, 0.95),
        "no_write_p50": median(same),
        "no_write_p95": percentile(same, 0.95),
    }


def _held(user: Any) -> int:
    status = user.status()
    return sum(status[k] for k in ("messages", "facts", "summaries", "topics"))


PHASES: dict[str, Callable[[Namespace], Figures]] = {
    "build": build,
    "measure": measure,
    "plain": plain,
    "one-user": one_user,
}


def run(options: Namespace) -> Figures:
    """Run one part; those that digest get a scripted model on loopback."""
    with ScriptedModel(memory=facts_of(10)) as model:
        options.model = model
        return PHASES[options.phase](options)
