"""Whose the folder of an embedded store is: one process at a time, for as long as it lives.

The lock is the operating system's (`filelock`): it ends with its process, however that ends, so
none is ever stale. A file beside it says who holds it, for whoever is refused. A forked child
holds nothing and lets go of nothing: the library closes what it inherited.
"""

import contextlib
import json
import os
import secrets
import shlex
import socket
import threading
from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from agently_gumem.errors import StoreError, StoreLocked

LOCK = ".gumem.lock"
OWNER = ".gumem.owner.json"


@dataclass
class _Taken:
    """A lock of this process, and how many stores of it rest on it."""

    lock: Any
    token: str
    since: str
    stores: int = 0


class _Folders:
    """The folders that this process owns; several stores of it share one."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.taken: dict[Path, _Taken] = {}


_folders = _Folders()
if hasattr(os, "register_at_fork"):  # not on Windows
    # A child owns nothing, and a guard that another thread held would never be let go in it.
    os.register_at_fork(after_in_child=_folders.__init__)


class Ownership:
    """One store's share in its process's lock on a folder; made by `own`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._mine = True

    def release(self) -> None:
        """Let go; the last store of the process gives the folder free. Safe to call twice."""
        if not self._mine or self._pid != os.getpid():
            return
        self._mine = False
        with _folders.guard:
            taken = _folders.taken[self._folder]
            taken.stores -= 1
            if not taken.stores:
                del _folders.taken[self._folder]
                with contextlib.suppress(OSError):  # it only tells; the lock is what counts
                    (self._folder / OWNER).unlink()
                taken.lock.release()

    def told(self) -> dict[str, Any]:
        """Say who holds the folder, and since when: this process."""
        with _folders.guard:
            taken = _folders.taken.get(self._folder)
        return {} if taken is None else {"pid": self._pid, "since": taken.since}


def own(folder: Path) -> Ownership:
    """Take a folder for this process; it is made where it is not there.

    Raises:
        StoreLocked: Another process has it; the message names that process, and the way out.
        StoreError: The folder can't be made, or no file in it can be locked.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        with _folders.guard:
            taken = _folders.taken.get(folder)
            if taken is None:
                taken = _folders.taken[folder] = _lock(folder)
            taken.stores += 1
    except OSError as error:
        raise StoreError(
            f"the folder {str(folder)!r} can't be opened for this process: {error}. Choose one "
            "that may be written, on a disk whose files can be locked"
        ) from error
    return Ownership(folder)


def token_of(folder: Path) -> str:
    """Return what a process that works for this one shows; empty where the folder is not owned."""
    with _folders.guard:
        taken = _folders.taken.get(folder.resolve())
    return taken.token if taken is not None else ""


@contextlib.contextmanager
def owned(folder: Path, token: str = "") -> Generator[None, None, None]:
    """Own a folder for a while, or work in it for its owner, whose token that is.

    Raises:
        StoreLocked: Another process has it, and the token is not its own.
        StoreError: As `own`.
    """
    if token and _owner(folder).get("token") == token:
        yield
        return
    ownership = own(folder)
    try:
        yield
    finally:
        ownership.release()


def _lock(folder: Path) -> _Taken:
    import filelock  # its import costs 20 ms, and a store in memory or on a server needs none

    # Whichever thread opens the store, another one may close it.
    lock: Any = filelock.FileLock(folder / LOCK, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise _refusal(folder) from None
    taken = _Taken(lock, secrets.token_hex(16), datetime.now(timezone.utc).isoformat())
    try:
        _tell(folder, taken)
    except OSError:
        lock.release()
        raise
    return taken


def _tell(folder: Path, taken: _Taken) -> None:
    """Say who holds the folder: whole or not at all, since somebody may read it just now."""
    told = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": taken.since,
        "token": taken.token,
    }
    draft = folder / f"{OWNER}.{os.getpid()}"
    draft.write_text(json.dumps(told), encoding="utf-8")
    draft.replace(folder / OWNER)


def _owner(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / OWNER).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}  # it has only just taken the folder, or is about to let go


def _refusal(folder: Path) -> StoreLocked:
    owner = _owner(folder)
    who = "another process"
    if owner:
        who = f"process {owner['pid']} on {owner['host']}, since {owner['since'][:19]}"
    serve = f"chroma run --path {shlex.quote(str(folder))}"
    return StoreLocked(
        f"the folder {str(folder)!r} is in use by {who}: one process at a time may open it. Close "
        f"it there; or, for several processes, run `{serve}` and give each "
        "GUMem(client=chromadb.HttpClient(host=..., port=...))",
        pid=owner.get("pid"),
    )
