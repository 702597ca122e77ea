"""One process a folder: the second one is told at once, whatever becomes of the first."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import chromadb
import pytest

from agently_gumem import EmbedderMismatch, GUMem, StoreLocked
from agently_gumem.ownership import LOCK, OWNER, own

_HOLDS = """
import sys
from pathlib import Path
from agently_gumem.ownership import own
held = own(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
held.release()
print("released", flush=True)
sys.stdin.readline()
"""


class Holder:
    """Another process that holds a folder until it is told to let go, or dies."""

    def __init__(self, folder: Path) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", _HOLDS, str(folder)], **pipes)
        assert self.process.stdout.readline() == "held\n"

    def release(self) -> None:
        """Have it let go, and go on living."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "released\n"

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait(10)

    def __enter__(self) -> "Holder":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


def test_the_second_process_is_told_who_has_the_folder_and_what_to_do(tmp_path: Path):
    """The message names the process, and the server as the way; nothing of Chroma was opened."""
    with Holder(tmp_path) as other:
        with pytest.raises(StoreLocked) as told:
            GUMem(tmp_path)
        assert told.value.pid == other.process.pid
        for part in (str(other.process.pid), "chroma run --path", "HttpClient"):
            assert part in str(told.value)
        assert sorted(p.name for p in tmp_path.iterdir()) == [LOCK, OWNER]
        other.release()
        with GUMem(tmp_path) as gumem:
            assert gumem.status()["store"]["lock"]["pid"] == os.getpid()


def test_a_client_of_the_callers_is_held_to_the_same(tmp_path: Path):
    """Whoever opened the folder, the memory in it belongs to one process."""
    client = chromadb.PersistentClient(str(tmp_path))
    with Holder(tmp_path), pytest.raises(StoreLocked, match="chroma run"):
        GUMem(client=client)
    with GUMem(client=client):
        assert "in use by process" in _refused(tmp_path)
    client.close()


def test_a_lock_ends_with_its_process_and_is_never_stale(tmp_path: Path):
    """The file of a process that was killed names it still, and holds nobody up."""
    with Holder(tmp_path) as other:
        other.kill()
        assert (tmp_path / OWNER).exists()
        with GUMem(tmp_path) as gumem:
            gumem.user("alice").add_messages({"content": "I live in Berlin."})


def test_stores_of_one_process_share_the_folder_until_the_last_is_closed(tmp_path: Path):
    """A link to the folder is the same folder."""
    link = tmp_path / "link"
    (tmp_path / "store").mkdir()
    link.symlink_to(tmp_path / "store")
    one, two = own(tmp_path / "store"), own(link)
    one.release()
    one.release()
    assert "in use by process" in _refused(link)
    two.release()
    assert _refused(tmp_path / "store") == ""


def test_a_store_that_is_refused_or_dropped_holds_nothing(tmp_path: Path):
    """What could not be opened, and what nobody closed, leaves the folder free."""
    GUMem(tmp_path).close()
    with pytest.raises(EmbedderMismatch):
        GUMem(tmp_path, embedding_function=lambda input: [[1.0, 0.0]] * len(input))
    assert _refused(tmp_path) == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_neither_holds_nor_releases_its_parents_lock(tmp_path: Path):
    """It is refused like anybody else; its end frees nothing, and its life holds nothing up."""
    held = own(tmp_path)
    reading, writing = os.pipe()
    going, gone = os.pipe()
    child = os.fork()
    if child == 0:
        told = "nothing"
        try:
            held.release()
            own(tmp_path)
        except StoreLocked as error:
            told = str(error)
        finally:
            os.write(writing, told.encode())
            os.read(going, 1)
            os._exit(0)
    try:
        ready, _, _ = select.select([reading], [], [], 20)
        assert ready
        assert f"process {os.getpid()}" in os.read(reading, 1000).decode()
        assert f"process {os.getpid()}" in _refused(tmp_path)
        held.release()
        assert _refused(tmp_path) == ""
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for end in (reading, writing, going, gone):
            os.close(end)


_FORKS_AND_DIES = """
import os, signal, sys
from pathlib import Path
from agently_gumem.ownership import own
held = own(Path(sys.argv[1]))
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    print(os.getpid(), flush=True)
    os.write(writing, b"!")
    sys.stdin.readline()
    os._exit(0)
os.read(reading, 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_that_outlives_its_parent_does_not_keep_the_folder(tmp_path: Path):
    """A worker whose parent crashed lives on; the next one opens the store at once."""
    command = [sys.executable, "-c", _FORKS_AND_DIES, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        assert parent.wait(10) == -signal.SIGKILL
        os.kill(child, 0)  # it lives
        own(tmp_path).release()
        parent.stdin.write(b"\n")


def test_the_command_that_erases_leaves_a_folder_alone_that_is_open(tmp_path: Path):
    """Beside writes it would damage the database; what the owner itself starts goes through."""
    with GUMem(tmp_path) as gumem:
        user = gumem.user("alice")
        user.add_messages({"content": "I live in Berlin."})
        done = _erasing(tmp_path)
        assert done.returncode == 1
        assert f"in use by process {os.getpid()}" in done.stderr
        assert _erasing(tmp_path, "--owner", "another").returncode == 1
        assert user.forget(everything=True, erase=True).erased
    assert _erasing(tmp_path).returncode == 0


def _erasing(folder: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "agently_gumem.erase", str(folder), *more]
    return subprocess.run(command, capture_output=True, text=True)


_OPENS = """
import sys
from pathlib import Path
from agently_gumem.errors import StoreLocked
from agently_gumem.ownership import own
try:
    own(Path(sys.argv[1])).release()
except StoreLocked as error:
    print(error)
"""


def _refused(folder: Path) -> str:
    """Try to take a folder in another process; give what it is told, nothing where it got it."""
    command = [sys.executable, "-c", _OPENS, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()
