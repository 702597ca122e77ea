"""The SQLite file of an embedded Chroma: what was deleted leaves it."""

import contextlib
import re
import sqlite3
import time
from collections.abc import Generator
from pathlib import Path
from uuid import UUID

from agently_gumem.erase.index import scrub_index, torn_indexes, unlist
from agently_gumem.erase.report import Erased

FILE = "chroma.sqlite3"
_VECTORS = "urn:chroma:segment/vector/hnsw-local-persisted"
_ORPHAN = "the vectors of a collection that was deleted; Chroma leaves its folder: remove it"
# Rows of the queue that the vector index has not taken up though later ones undo them: their text
# and vector are still there, and only Chroma may take them out.
_WAITING = """
select count(*) from embeddings_queue q
join collections c on q.topic like '%/' || c.id
join segments s on s.collection = c.id and s.type = ?
left join max_seq_id m on m.segment_id = s.id
where is_ours(c.name) and q.seq_id > coalesce(cast(m.seq_id as integer), 0) and (
  q.operation = 3 or exists (
    select 1 from embeddings_queue later
    where later.topic = q.topic and later.id = q.id and later.seq_id > q.seq_id))
"""


# As Chroma purges: up to what both indexes hold, and never the last row, which keeps the count.
_PURGE = """
delete from embeddings_queue where exists (
  select 1 from collections c
  where embeddings_queue.topic like '%/' || c.id and is_ours(c.name)
  and embeddings_queue.seq_id < (
    select min(coalesce(cast(m.seq_id as integer), 0)) from segments s
    left join max_seq_id m on m.segment_id = s.id where s.collection = c.id))
"""


def clean(folder: Path, namespace: str, timeout: float) -> Erased:
    """Take the bytes of deleted rows out of a store's files.

    Only the process that this runs in, and Chroma in others that write nothing meanwhile, may
    have the folder open; readers may go on.

    Raises:
        sqlite3.Error: The database can't be read or rewritten; it is as it was.
        OSError: So for a file of vectors.
        ValueError: The vector files are of a form that is not known.
    """
    began = time.monotonic()
    before = (folder / FILE).stat().st_size
    with _opened(folder / FILE, namespace, timeout) as database:
        left = {**_waiting(database), **_orphans(database, folder)}
        _compact(database)
        zeroed, indexes = _scrub(database, folder)
        integrity = _check(database)
    return Erased(
        kind="embedded",
        integrity=integrity,
        left=left,
        seconds=round(time.monotonic() - began, 3),
        freed=before - (folder / FILE).stat().st_size,
        zeroed=zeroed,
        indexes=indexes,
    )


def unlist_torn(folder: Path, namespace: str, timeout: float) -> list[str]:
    """Take out the lists of ids of the namespace's torn indexes; give the indexes' folders.

    Another application's are left as they are: it may have no text to embed anew.

    Raises:
        sqlite3.Error: The database can't be read.
        OSError: A list can't be taken out.
    """
    with _opened(folder / FILE, namespace, timeout) as database:
        ours = set(_indexes(database))
    torn = [index for index in torn_indexes(folder) if index.name in ours]
    for index in torn:
        unlist(index)
    return [index.name for index in torn]


@contextlib.contextmanager
def _opened(
    file: Path, namespace: str, timeout: float
) -> Generator[sqlite3.Connection, None, None]:
    # Mode rw: a folder without a store is an error, not a new database.
    uri = f"{file.resolve().as_uri()}?mode=rw"
    database = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
    # All of the name: `gumem-notes` is another application's, whose vectors may be of any length.
    ours = re.compile(re.escape(namespace) + "-(root|[0-9]{3})")

    def is_ours(name: str) -> bool:
        return ours.fullmatch(name) is not None

    database.create_function("is_ours", 1, is_ours)
    try:
        yield database
    finally:
        database.close()


def _compact(database: sqlite3.Connection) -> None:
    """Empty the queue where Chroma was told not to, then rewrite full-text index and file."""
    database.execute("pragma secure_delete = on")
    database.execute(_PURGE)
    database.execute(
        "insert into embedding_fulltext_search (embedding_fulltext_search) values ('optimize')"
    )
    database.execute("vacuum")
    database.execute("pragma wal_checkpoint(truncate)")


def _indexes(database: sqlite3.Connection) -> tuple[str, ...]:
    """Name the folders of the namespace's vector files."""
    rows = database.execute(
        "select s.id from segments s join collections c on s.collection = c.id "
        "where s.type = ? and is_ours(c.name) order by s.id",
        (_VECTORS,),
    )
    return tuple(str(row[0]) for row in rows)


def _scrub(database: sqlite3.Connection, folder: Path) -> tuple[int, tuple[str, ...]]:
    indexes = _indexes(database)
    # Whoever else has the folder open can begin no write before this ends.
    database.execute("begin immediate")
    try:
        return sum(scrub_index(folder / name) for name in indexes), indexes
    finally:
        database.execute("rollback")


def _check(database: sqlite3.Connection) -> str:
    return "; ".join(str(row[0]) for row in database.execute("pragma integrity_check(5)"))


def _waiting(database: sqlite3.Connection) -> dict[str, str]:
    ((count,),) = database.execute(_WAITING, (_VECTORS,)).fetchall()
    if not count:
        return {}
    return {
        f"{FILE}, embeddings_queue, and data_level0.bin": f"{count} changes that the vector index "
        "has not taken up: let the application erase (with the server running), then run this"
    }


def _orphans(database: sqlite3.Connection, folder: Path) -> dict[str, str]:
    # The folders first: one that comes after has its row already.
    found = [p.name for p in folder.iterdir() if p.is_dir() and _is_uuid(p.name)]
    known = {str(row[0]) for row in database.execute("select id from segments")}
    return dict.fromkeys(sorted(set(found) - known), _ORPHAN)


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
