"""The vector files of one index: what no living vector needs is overwritten with zeros.

The form is that of Chroma's hnswlib (`persistHeader`, `persistDirty` in hnswalg.h): an element is
its links, its vector and its label; deleting one sets a mark and leaves the vector. Where no
element stands yet, and in all of length.bin, Chroma writes memory of its process as it finds it,
and that can hold any text.
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# version, offset of level 0, capacity, elements, bytes an element, offsets of label and vector,
# top level, entry point, three counts of links, the level's factor, size of the search.
_HEADER = struct.Struct("<iQQQQQQiIQQQdQ")
_VERSION = 1
_DELETED = 0x01
_BLOCK = 4 * 2**20


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
    """Zero the vectors of deleted elements, what lies past the last one, and length.bin.

    Nothing may write to the index meanwhile. The spaces of the store (inner product, squared
    distance) never read length.bin: it holds lengths for cosine only.

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
        zeroed += _zero_from(file, 0)
        _settle(file)
    return zeroed


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


def _settle(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
