"""The vector files of one index: what no living vector needs is overwritten with zeros.

The form is that of Chroma's hnswlib (`persistHeader`, `persistDirty` in hnswalg.h): an element is
its links, its vector and its label; deleting one sets a mark and leaves the vector. Where no
element stands yet, Chroma writes memory of its process as it finds it, and that can hold any
text: past the last element, and in length.bin, which holds lengths for cosine only, wherever the
space is another one.
"""

import contextlib
import os
import struct
import time
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# version, offset of level 0, capacity, elements, bytes an element, offsets of label and vector,
# top level, entry point, three counts of links, the level's factor, size of the search.
_HEADER = struct.Struct("<iQQQQQQiIQQQdQ")
_VERSION = 1
_DELETED = 0x01
# Chroma's own: which id stands where in its index.
_IDS = "index_metadata.pickle"
_BLOCK = 4 * 2**20
# How far the length of a vector of length 1 may be off, as float32.
_NEAR = 1e-3


class _Began:
    """Since when this process may write: a forked child, since the fork."""

    def __init__(self) -> None:
        self.at = time.time()


_began = _Began()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_began.__init__)


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
    level0 = folder / "data_level0.bin"
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


def drop_unwritten(folder: Path) -> None:
    """Take out the empty lists of ids that a kill left where an index was first written out.

    Chroma empties that file before it writes it, and can't open a collection whose list is empty;
    without one it makes the index anew from its queue, which it had not emptied yet. Only where at
    most one element stands, as our own first writing has it, and only what is older than this
    process: a younger one may be written just now.
    """
    for place in folder.iterdir():
        with contextlib.suppress(OSError, ValueError):  # no index, or of a form that is not known
            told = (place / _IDS).stat()
            old = told.st_size == 0 and told.st_mtime < _began.at
            if old and _layout_of(place).elements <= 1:
                (place / _IDS).unlink()


def _layout_of(folder: Path) -> _Layout:
    raw = (folder / "header.bin").read_bytes()
    if len(raw) != _HEADER.size:
        raise ValueError(f"header.bin has {len(raw)} bytes, not {_HEADER.size}")
    version, offset, _, elements, size, label, vector, *_ = _HEADER.unpack(raw)
    if version != _VERSION or offset != 0 or not 4 <= vector <= label <= size:
        raise ValueError(f"header.bin is of version {version}, or its offsets are not known")
    return _Layout(elements, size, vector, label)


def _scrub_deleted(file: BinaryIO, layout: _Layout) -> int:
    a_block = max(1, _BLOCK // layout.size) * layout.size
    blank = bytes(layout.label - layout.vector)
    zeroed = 0
    for start in range(0, layout.used, a_block):
        file.seek(start)
        block = file.read(min(a_block, layout.used - start))
        for place in range(0, len(block) - layout.size + 1, layout.size):
            vector = block[place + layout.vector : place + layout.label]
            if block[place + 2] & _DELETED and vector != blank:
                file.seek(start + place + layout.vector)
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
