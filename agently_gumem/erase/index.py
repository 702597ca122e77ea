"""The vector files of one index: what no living vector needs is overwritten with zeros.

The form is that of Chroma's hnswlib (`persistHeader`, `persistDirty` in hnswalg.h): an element is
its links, its vector and its label; deleting one sets a mark and leaves the vector. Where no
element stands yet, Chroma writes memory of its process as it finds it, and that can hold any
text: past the last element, and in length.bin, which holds lengths for cosine only, wherever the
space is another one.
"""

import contextlib
import os
import pickle
import struct
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO

# version, offset of level 0, capacity, elements, bytes an element, offsets of label and vector,
# top level, entry point, three counts of links, the level's factor, size of the search.
_HEADER = struct.Struct("<iQQQQQQiIQQQdQ")
_VERSION = 1
# The byte of an element that says whether it is deleted, and the bit that says it.
_MARK = 2
_DELETED = 0x01
_LEVEL0 = "data_level0.bin"
# Chroma's own: which id stands where in its index.
_IDS = "index_metadata.pickle"
_BLOCK = 4 * 2**20
# How far the length of a vector of length 1 may be off, as float32.
_NEAR = 1e-3

KEEPER = "keeper"
"""Id and layer of the row that stays in each collection: of an index without any row Chroma makes
a new one at opening."""


@dataclass(frozen=True)
class _Layout:
    """Where an element keeps its parts, in bytes."""

    elements: int
    size: int
    vector: int
    label: int

    @property
    def used(self) -> int:
        """Length of the part of the file in which elements stand."""
        return self.elements * self.size


def scrub_index(folder: Path) -> int:
    """Zero the vectors of deleted elements, what lies past the last one, and what is no length.

    Nothing may write to the index meanwhile. Vectors of the store are of length 1, or zero.

    Returns:
        The number of bytes that were overwritten.

    Raises:
        ValueError: The files are of a form that is not known; nothing was written.
        OSError: They can't be read or written.
    """
    level0 = folder / _LEVEL0
    if not level0.exists():
        return 0
    layout = _layout_of(folder)
    with level0.open("r+b") as file:
        zeroed = _scrub_deleted(file, layout) + _zero_from(file, layout.used)
        _settle(file)
    with (folder / "length.bin").open("r+b") as file:
        zeroed += _zero_from(file, 4 * layout.elements) + _scrub_lengths(file, layout.elements)
        _settle(file)
    return zeroed


def index_of(folder: Path, row_id: str) -> Path:
    """Find the index that was written out with a row of this id, which stands in no other.

    Only the database says which collection an index belongs to, and a second SQLite in this
    process would break its locks. Whatever else stands in the folder is another application's,
    which may write at any moment, and is left alone.

    Raises:
        ValueError: None has such a row.
        OSError: The folder can't be read.
    """
    written: list[tuple[int, Path]] = []
    for place in folder.iterdir():
        with contextlib.suppress(OSError):  # no index, or somebody else's folder
            written.append(((place / _IDS).stat().st_mtime_ns, place))
    for _, place in sorted(written, reverse=True):  # the last one written first
        with contextlib.suppress(OSError):
            if row_id.encode() in (place / _IDS).read_bytes():
                return place
    raise ValueError(f"no {_IDS} names the row that was just written")


def torn_indexes(folder: Path) -> list[Path]:
    """List the indexes of a store that a kill left half written, which Chroma can't open.

    Chroma writes its vectors first, then the list of ids, which it empties before. So the list is
    cut short; or the vectors have elements that it does not know, or have marked as deleted what
    it knows, and Chroma, which does both anew then, fails at it and reads nothing. Nothing may
    write to the folder meanwhile.
    """
    torn: list[Path] = []
    for place in sorted(folder.iterdir()):
        with contextlib.suppress(OSError, ValueError):  # no index, or of a form that is not known
            if _is_torn(place):
                torn.append(place)
    return torn


def unlist(index: Path) -> None:
    """Take out the list of ids of a torn index: Chroma makes the index anew without it.

    It holds what stands in Chroma's queue then; the vectors of all other rows are lost, and what
    these say is not.
    """
    (index / _IDS).unlink()


class _Plain(pickle.Unpickler):
    """Reads numbers, texts, lists and dictionaries, and nothing that would run code."""

    def find_class(self, module: str, name: str, /) -> object:
        raise ValueError(f"{_IDS} holds a {module}.{name}")


def _is_torn(index: Path) -> bool:
    """Compare the list with the vectors: the files' times say nothing once they were copied."""
    try:
        given, known = _listed(index)
    except (EOFError, pickle.UnpicklingError):
        return True
    layout = _layout_of(index)
    if layout.elements > given:
        return True
    if KEEPER not in known and _is_newer_list(index):
        return False  # not read through: another application's, and of any size
    return _count_deleted(index, layout) > given - len(known)


def _listed(index: Path) -> tuple[int, Collection[str]]:
    """Read how many elements an index was ever given, and the ids of those that live.

    Raises:
        EOFError, pickle.UnpicklingError: The list is cut short, or no list at all.
        ValueError: It is of a form that is not known.
    """
    with (index / _IDS).open("rb") as file:
        try:
            told: Any = _Plain(file).load()
            known: dict[str, int] = told["id_to_label"]
            return int(told["total_elements_added"]), known.keys()
        except (EOFError, pickle.UnpicklingError):
            raise
        except Exception as error:  # of what is no list, reading may raise anything
            raise ValueError(f"{_IDS} is of a form that is not known: {error}") from error


def _is_newer_list(index: Path) -> bool:
    """Tell whether the list was written after the header, as Chroma does, or copied after it."""
    return (index / "header.bin").stat().st_mtime_ns < (index / _IDS).stat().st_mtime_ns


def _layout_of(folder: Path) -> _Layout:
    raw = (folder / "header.bin").read_bytes()
    if len(raw) != _HEADER.size:
        raise ValueError(f"header.bin has {len(raw)} bytes, not {_HEADER.size}")
    version, offset, _, elements, size, label, vector, *_ = _HEADER.unpack(raw)
    if version != _VERSION or offset != 0 or not 4 <= vector <= label <= size:
        raise ValueError(f"header.bin is of version {version}, or its offsets are not known")
    return _Layout(elements, size, vector, label)


def _deleted(file: BinaryIO, layout: _Layout) -> Iterator[tuple[int, bytes]]:
    """Give the place of each vector whose element is marked as deleted, and the vector."""
    a_block = max(1, _BLOCK // layout.size) * layout.size
    for start in range(0, layout.used, a_block):
        file.seek(start)
        block = file.read(min(a_block, layout.used - start))
        for place in range(0, len(block) - layout.size + 1, layout.size):
            if block[place + _MARK] & _DELETED:
                vector = block[place + layout.vector : place + layout.label]
                yield start + place + layout.vector, vector


def _count_deleted(index: Path, layout: _Layout) -> int:
    with (
        (index / _LEVEL0).open("rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as level0,
    ):
        return sum(mark & _DELETED for mark in level0[_MARK : layout.used : layout.size])


def _scrub_deleted(file: BinaryIO, layout: _Layout) -> int:
    blank = bytes(layout.label - layout.vector)
    zeroed = 0
    for place, vector in _deleted(file, layout):
        if vector != blank:
            file.seek(place)
            zeroed += file.write(blank)
    return zeroed


def _zero_from(file: BinaryIO, start: int) -> int:
    zeroed = 0
    file.seek(start)
    while block := file.read(_BLOCK):
        if block.count(0) != len(block):
            file.seek(start)
            zeroed += file.write(bytes(len(block)))
        start += len(block)
    return zeroed


def _scrub_lengths(file: BinaryIO, elements: int) -> int:
    file.seek(0)
    lengths = array("f", file.read(4 * elements))
    wrong = [n for n, length in enumerate(lengths) if length and not abs(length - 1) <= _NEAR]
    for n in wrong:
        lengths[n] = 0.0
    if wrong:
        file.seek(0)
        lengths.tofile(file)
    return lengths.itemsize * len(wrong)


def _settle(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
