"""Open Chroma: a folder, a client of the caller's, or a database in memory."""

import contextlib
import os
import threading
import uuid
import weakref
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agently_gumem.errors import AFTER_A_FORK, ConfigError, GUMemError, StoreError
from agently_gumem.ownership import Ownership, own

# The folder -> the name under which a client of the caller's has it open in this process.
_names: dict[Path, str] = {}
# What a client of the caller's works with in Chroma -> the folder that its path led to at first.
_led: "weakref.WeakKeyDictionary[Any, Path]" = weakref.WeakKeyDictionary()
_ADVICE = "Give the client the whole path: chromadb.PersistentClient(os.path.abspath(...))"
# What Chroma says of an index that a kill left half written, or whose vectors are lost.
_TORN = ("hnsw segment", "Error finding id")
_MENDING = (
    ". A kill or a full disk tore an index, as it seems: see that there is room, stop all that use "
    "its folder, then open it once with GUMem(path, ...), which makes the index anew"
)
open_stores: defaultdict[str, "weakref.WeakSet[Any]"] = defaultdict(weakref.WeakSet)
"""A database's name within this process -> the stores that have it open."""


class _Embedded:
    """Chroma inside this process, which is opened and closed by one thread at a time.

    It gives a second thread a database that is half opened or closed. And a forked child has none
    of its threads: what was opened in the parent, or has an index to read, hangs there for ever.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.used = False
        self.lost = False

    def fork(self) -> None:
        """Begin as a child, whose lock may be held by a thread that it does not have."""
        self.lock = threading.Lock()
        self.lost = self.used

    def check(self) -> None:
        """Raise StoreError in a child of a process that had used it."""
        if self.lost:
            raise StoreError(
                "this process was forked from one that had used Chroma, whose threads a child does "
                f"not have, so that it would hang: {AFTER_A_FORK}"
            )


_embedded = _Embedded()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=open_stores.clear)
    os.register_at_fork(after_in_child=_embedded.fork)


@contextlib.contextmanager
def chroma(what: str) -> Generator[None, None, None]:
    """Turn what Chroma raises (InternalError, ValueError, httpx errors, ...) into StoreError."""
    try:
        yield
    except GUMemError:
        raise
    except Exception as error:  # Chroma has no common root of errors
        told = f"Chroma could not {what}: {type(error).__name__}: {error}"
        raise StoreError(told + (_MENDING if any(t in told for t in _TORN) else "")) from error


@dataclass(frozen=True)
class Opened:
    """A Chroma client, its kind ("embedded", "memory" or "server"), and whether it is ours."""

    client: Any
    kind: str
    owned: bool
    key: str
    """Names the database within this process."""
    folder: Path | None = None
    """Where its files are, resolved; None in memory and on a server."""
    ownership: Ownership | None = None
    """This process's hold on the folder."""

    def check_place(self) -> None:
        """Make sure that the path which Chroma follows at every call still leads to the folder.

        Raises:
            StoreError: It is relative, or a link, and leads elsewhere now: what Chroma reads and
                writes would be of two folders.
        """
        if self.folder is not None and self.key != str(self.folder):
            _check_leads(self.key, self.folder)


def open_client(
    path: str | os.PathLike[str] | None, client: Any, *, timeout: float = 30.0
) -> Opened:
    """Open a folder, take a client that is open, or open a database in memory.

    Args:
        path: The folder of an embedded store.
        client: A client that the caller has open.
        timeout: Seconds that one call to a server may take, where the client has no bound.

    Raises:
        ConfigError: Both were given, `path` is a file, or the client's path leads elsewhere now.
        StoreLocked: Another process has the folder open.
        StoreError: Chroma can't open the path, or can't be used in this process, a forked child.
    """
    if path is not None and client is not None:
        raise ConfigError("give path= or client=, not both")
    if client is not None:
        return _taken(client, timeout)
    _embedded.check()
    import chromadb  # 0.5 s and more: never at import of the package

    # Default settings: Chroma refuses a second client of a process that has others, and the
    # application may have one of its own. Its telemetry sends nothing since 1.5.
    if path is None:
        with chroma("open a database in memory"), _embedded.lock:
            _embedded.used = True
            fresh = chromadb.EphemeralClient()
        return Opened(fresh, "memory", owned=True, key=uuid.uuid4().hex)
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"path={path!r} is no path of a folder")
    if not str(path).strip():  # an unset variable: the current folder would become the store
        raise ConfigError('path= must not be empty; "." names the current folder')
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"path={str(path)!r} is a file; a store is a folder")
    # Before Chroma opens it: two processes in one folder, and some of its calls hang or lose rows.
    ownership = own(folder)
    try:
        place = folder.resolve()
        with chroma(f"open {str(path)!r}"), _embedded.lock:
            name = _name_of(place)
            _check_leads(name, place)
            _embedded.used = True
            opened = chromadb.PersistentClient(name)
    except StoreError:
        ownership.release()
        raise
    return Opened(opened, "embedded", True, _key_of(opened), place, ownership)


def close_client(client: Any) -> None:
    """Let go of a client; the last one of a database closes it."""
    with _embedded.lock:
        client.close()


def reopened(client: Any, timeout: float) -> Opened:
    """Connect to a server anew, as a client does: in a forked child, whose parent has the other.

    Raises:
        StoreError: A client of its kind can't be made anew, or the server does not answer.
    """
    with chroma("connect to its server anew after a fork"):
        fresh = type(client)(
            tenant=client.tenant, database=client.database, settings=client.get_settings()
        )
    return replace(open_client(None, fresh, timeout=timeout), owned=True)


def _taken(client: Any, timeout: float) -> Opened:
    """Take a client that the caller has open; it stays the caller's to close."""
    if not hasattr(client, "get_settings"):
        raise ConfigError(f"client={client!r} is no chromadb client, such as HttpClient(...)")
    if "fastapi" in str(getattr(client.get_settings(), "chroma_api_impl", "")):
        _bound(client, timeout)
        return Opened(client, "server", owned=False, key=_key_of(client))
    _embedded.check()
    folder, key = _folder_of(client), _key_of(client)
    if folder is None:
        _embedded.used = True
        return Opened(client, "embedded", owned=False, key=key)
    if not _is_where_it_was(client, folder):
        raise ConfigError(
            f"client= has {key!r} open, and its database is not there any more: a relative path "
            f"leads elsewhere once the current folder changes. {_ADVICE}"
        )
    known = _name_of(folder)
    if known != key and open_stores[known]:
        raise ConfigError(
            f"client= has {str(folder)!r} open as {key!r}, and another memory of this process as "
            f"{known!r}: Chroma would keep two indexes of the same vectors. Use one spelling: "
            f"chromadb.PersistentClient({known!r})"
        )
    _embedded.used = True
    _names[folder] = key
    return Opened(client, "embedded", False, key, folder, own(folder))


def _name_of(place: Path) -> str:
    """Give the name under which this process opens a folder in Chroma.

    Chroma tells databases by the spelling of their path, and follows it at every write: two
    spellings of one folder are two indexes that overwrite each other, and a relative path or a
    link is another folder once it leads elsewhere. So it is the whole path, or the spelling of a
    caller's client, for as long as that leads there or a store has it open.
    """
    known = _names.get(place)
    if known is not None and (open_stores[known] or Path(known).resolve() == place):
        return known
    return str(place)


def _check_leads(name: str, place: Path) -> None:
    if Path(name).resolve() != place:
        raise StoreError(
            f"{name!r}, as a client of Chroma has {str(place)!r} open, leads elsewhere now, and "
            f"Chroma follows it at every call. {_ADVICE}"
        )


def _is_where_it_was(client: Any, folder: Path) -> bool:
    """Tell whether a client's database is in the folder that its path leads to now."""
    system = getattr(client, "_system", None)  # a new one once all its clients were closed
    file = folder / "chroma.sqlite3"
    led = folder if system is None else _led.get(system, folder)
    if led != folder or not file.exists():
        return False
    if _key_of(client) != str(folder) and not _is_open(file):
        return False
    if system is not None:
        _led[system] = folder
    return True


def _is_open(file: Path) -> bool:
    """Tell whether this process has a file open; True where the system does not say."""
    try:
        numbers = [int(place.name) for place in Path("/dev/fd").iterdir()]
    except (OSError, ValueError):  # as on Windows
        return True
    wanted = file.stat()
    for number in numbers:
        with contextlib.suppress(OSError):  # that of the listing is closed by now
            if os.path.samestat(os.fstat(number), wanted):
                return True
    return False


def _bound(client: Any, seconds: float) -> None:
    """Let no call to a server last for ever: Chroma's client has no bound of its own.

    A server that hangs would hold the threads of all users.
    """
    session = getattr(getattr(client, "_server", None), "_session", None)
    bounds = getattr(session, "timeout", None)
    if session is not None and bounds is not None and bounds.read is None:
        session.timeout = seconds


def _key_of(client: Any) -> str:
    """Name a client's database: Chroma shares one a folder among the clients of a process."""
    return str(getattr(client, "_identifier", None) or f"client {id(client)}")


def _folder_of(client: Any) -> Path | None:
    settings = client.get_settings()
    if "rust" not in str(settings.chroma_api_impl) or not settings.is_persistent:
        return None
    return Path(settings.persist_directory).resolve()
