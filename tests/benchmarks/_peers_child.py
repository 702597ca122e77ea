"""One other memory, in its own virtual environment: fill it, ask it, print JSON.

`python _peers_child.py NAME JOB` with JOB a folder that holds `job.json` (users with their texts
and questions) and `vectors.npz` (the vector of each text, in the order of `texts` in the job).
It knows nothing of agently-gumem: that is not installed where it runs.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

DEEPEST = 50
DIMENSION = 512


class Vectors:
    """Looks up what was embedded beforehand, so that embedding costs a peer nothing."""

    def __init__(self, job, folder):
        matrix = np.load(folder / "vectors.npz")["vectors"]
        texts = [text.strip() for text in job["texts"]]  # mem0 strips a question
        self.known = dict(zip(texts, matrix, strict=True))

    def __call__(self, text):
        return self.known[text.strip()].tolist()

    def many(self, texts):
        """Return one vector a text."""
        return [self(text) for text in texts]

    def embed(self, text, memory_action=None):
        """Embed as mem0 asks for it."""
        return self(text)

    def embed_batch(self, texts, memory_action=None):
        """Embed several as mem0 asks for it."""
        return self.many(texts)


def chroma(job, vectors):
    """One collection, the user a metadata field."""
    import chromadb

    client = chromadb.PersistentClient(tempfile.mkdtemp())
    box = client.create_collection("turns", metadata={"hnsw:space": "cosine"})
    for user in job["users"]:
        texts = [text for _, text in user["turns"]]
        box.add(
            ids=[f"{user['name']}/{key}" for key, _ in user["turns"]],
            documents=texts,
            embeddings=vectors.many(texts),
            metadatas=[{"user": user["name"], "key": key} for key, _ in user["turns"]],
        )

    def ask(user, question):
        found = box.query(
            query_embeddings=[vectors(question)], n_results=DEEPEST, where={"user": user}
        )
        return [meta["key"] for meta in found["metadatas"][0]]

    return ask


def langgraph(job, vectors):
    """A namespace a user."""
    from langgraph.store.memory import InMemoryStore

    store = InMemoryStore(index={"dims": DIMENSION, "embed": vectors.many, "fields": ["text"]})
    for user in job["users"]:
        for key, text in user["turns"]:
            store.put((user["name"],), key, {"text": text})

    def ask(user, question):
        return [item.key for item in store.search((user,), query=question, limit=DEEPEST)]

    return ask


def lancedb(job, vectors):
    """One table with a full-text index; vectors and words joined by reciprocal rank fusion."""
    import lancedb
    from lancedb.rerankers import RRFReranker

    rows = [
        {"user": user["name"], "key": key, "text": text, "vector": vectors(text)}
        for user in job["users"]
        for key, text in user["turns"]
    ]
    table = lancedb.connect(tempfile.mkdtemp()).create_table("turns", rows)
    table.create_fts_index("text")
    fusion = RRFReranker()

    def ask(user, question):
        query = table.search(query_type="hybrid").vector(vectors(question)).text(question)
        found = query.where(f"user = '{user}'", prefilter=True).limit(DEEPEST).rerank(fusion)
        return [row["key"] for row in found.to_list()]

    return ask


def mem0(job, vectors):
    """Its own store on Chroma, with `infer=False`: each turn is a memory."""
    os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=tempfile.mkdtemp(), OPENAI_API_KEY="none")
    from mem0 import Memory

    folder = tempfile.mkdtemp()
    box = {"collection_name": "turns", "path": f"{folder}/chroma"}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "chroma", "config": box},
            "history_db_path": f"{folder}/history.db",
        }
    )
    memory.embedding_model = vectors
    for user in job["users"]:
        for key, text in user["turns"]:
            said = [{"role": "user", "content": text}]
            memory.add(said, user_id=user["name"], infer=False, metadata={"key": key})

    def ask(user, question):
        found = memory.search(question, filters={"user_id": user}, top_k=DEEPEST, threshold=0.0)
        return [one["metadata"]["key"] for one in found["results"]]

    return ask


PEERS: dict[str, tuple[Callable, str]] = {
    "chroma": (chroma, "chromadb"),
    "langgraph": (langgraph, "langgraph"),
    "lancedb": (lancedb, "lancedb"),
    "mem0": (mem0, "mem0ai"),
}


def main() -> None:
    """Fill, ask, print one JSON object on the last line."""
    build, package = PEERS[sys.argv[1]]
    folder = Path(sys.argv[2])
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    began = time.process_time()
    ask = build(job, Vectors(job, folder))
    filled = time.process_time() - began
    found, spent = [], []
    for user in job["users"]:
        ask(user["name"], user["questions"][0])
        for question in user["questions"]:
            began = time.process_time()
            found.append(ask(user["name"], question))
            spent.append((time.process_time() - began) * 1000)
    out = {"version": version(package), "found": found, "spent": spent, "filled": filled}
    print("\n" + json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
