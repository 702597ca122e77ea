"""Search every byte of a folder for texts and vectors, in the forms in which they may stand there.

A text: UTF-8, UTF-16 of both orders, JSON with escapes, base64 at each of its three alignments.
A vector: any 16 bytes in a row of its float32 or float16 form, wherever they begin. Both: plain,
and inside zlib, gzip and zstd streams, which are looked for at every byte.
"""

import base64
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zstandard
from numpy.typing import NDArray

_WINDOW = 16
_MOST = 64 * 2**20  # a stream that unpacks to more is looked through that far
_DEPTH = 2  # a stream in a stream
_ZLIB = tuple(bytes([0x78, second]) for second in (0x01, 0x5E, 0x9C, 0xDA))
_GZIP = b"\x1f\x8b\x08"
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Hit:
    """One thing that stands in a file."""

    file: str
    kind: str
    """utf-8, utf-16-le, utf-16-be, json, base64, float32 or float16, after the stream's kind."""
    what: str
    """The text, or the vector's place among those given."""


def find(
    folder: Path | str,
    texts: Sequence[str] = (),
    vectors: Sequence[NDArray[np.float32]] = (),
) -> list[Hit]:
    """List what stands in any file of a folder; each thing once a file and kind."""
    patterns = [(kind, t, p) for t in texts for kind, p in _forms(t)]
    wanted = {kind: _Vectors.of(vectors, np.dtype(kind)) for kind in ("float32", "float16")}
    found: dict[Hit, None] = {}
    for file in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        name = str(file.relative_to(folder))
        for kind, what in _search(file.read_bytes(), patterns, wanted, _DEPTH):
            found[Hit(name, kind, what)] = None
    return list(found)


def _forms(text: str) -> Iterator[tuple[str, bytes]]:
    if not text:
        raise ValueError("an empty text stands everywhere")
    yield "utf-8", text.encode()
    yield "utf-16-le", text.encode("utf-16-le")
    yield "utf-16-be", text.encode("utf-16-be")
    escaped = json.dumps(text)[1:-1]
    upper = "\\u".join(
        p[:4].upper() + p[4:] if n else p for n, p in enumerate(escaped.split("\\u"))
    )
    for form in {escaped, upper} - {text}:
        yield "json", form.encode()
    raw = text.encode()
    for before in range(3):
        # What depends on the neighbours of the text is cut off at both ends.
        coded = base64.b64encode(bytes(before) + raw).rstrip(b"=")
        coded = coded[(0, 2, 3)[before] : len(coded) - (1 if (before + len(raw)) % 3 else 0)]
        for form in {coded, coded.translate(bytes.maketrans(b"+/", b"-_"))}:
            if len(form) >= 6:
                yield "base64", form


@dataclass(frozen=True)
class _Vectors:
    """All windows of eight bytes of some vectors, sorted: any sixteen hold an aligned eight."""

    raw: Sequence[bytes]
    windows: NDArray[np.uint64]

    @classmethod
    def of(
        cls, vectors: Sequence[NDArray[np.float32]], dtype: "np.dtype[np.floating]"
    ) -> "_Vectors":
        raw = [np.asarray(v).astype(dtype).tobytes() for v in vectors]
        parts = [
            np.frombuffer(r[i : i + len(r[i:]) // 8 * 8], np.uint64) for r in raw for i in range(8)
        ]
        windows = np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.uint64)
        # A run of one byte, such as zeros, stands everywhere.
        plain = [w for w in windows.tolist() if len(set(w.to_bytes(8, "little"))) == 1]
        return cls(raw, np.setdiff1d(windows, np.array(plain, np.uint64)))

    def within(self, data: bytes) -> set[int]:
        """Return the places of the vectors of which sixteen bytes in a row stand in the data."""
        if not self.windows.size or len(data) < _WINDOW:
            return set()
        found: set[int] = set()
        a_part = 2**22
        blocks = np.frombuffer(data, np.uint64, len(data) // 8)
        for start in range(0, len(blocks), a_part):
            part = blocks[start : start + a_part]
            at = np.searchsorted(self.windows, part)
            at[at == len(self.windows)] = 0
            for place in np.flatnonzero(self.windows[at] == part).tolist():
                found |= self._whole(data, (start + place) * 8)
        return found

    def _whole(self, data: bytes, at: int) -> set[int]:
        begins = range(max(0, at - 8), min(at, len(data) - _WINDOW) + 1)
        around = [data[i : i + _WINDOW] for i in begins]
        return {n for n, raw in enumerate(self.raw) if any(w in raw for w in around)}


def _search(
    data: bytes,
    patterns: Sequence[tuple[str, str, bytes]],
    vectors: Mapping[str, _Vectors],
    depth: int,
) -> Iterator[tuple[str, str]]:
    for kind, text, pattern in patterns:
        if pattern in data:
            yield kind, text
    for kind, wanted in vectors.items():
        for place in sorted(wanted.within(data)):
            yield kind, f"vector {place}"
    if depth:
        for name, inner in _streams(data):
            for kind, what in _search(inner, patterns, vectors, depth - 1):
                yield f"{name} {kind}", what


def _streams(data: bytes) -> Iterator[tuple[str, bytes]]:
    for magic in _ZLIB:
        yield from _unpacked("zlib", data, magic, lambda raw: _inflate(raw, 15))
    yield from _unpacked("gzip", data, _GZIP, lambda raw: _inflate(raw, 31))
    yield from _unpacked("zstd", data, _ZSTD, _unzstd)


def _unpacked(
    name: str, data: bytes, magic: bytes, unpack: Callable[[memoryview], bytes]
) -> Iterator[tuple[str, bytes]]:
    view = memoryview(data)
    at = data.find(magic)
    while at >= 0:
        inner = unpack(view[at:])
        if inner:
            yield name, inner
        at = data.find(magic, at + 1)


def _inflate(raw: memoryview, bits: int) -> bytes:
    """Unpack as far as it goes: a stream that was cut or overwritten still tells its beginning."""
    stream = zlib.decompressobj(bits)
    out = bytearray()
    for start in range(0, len(raw), 4096):
        try:
            out += stream.decompress(raw[start : start + 4096])
        except zlib.error:
            break
        if stream.eof or len(out) > _MOST:
            break
    return bytes(out)


def _unzstd(raw: memoryview) -> bytes:
    out = bytearray()
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(raw))
    while len(out) <= _MOST:
        try:
            part = reader.read(4096)
        except zstandard.ZstdError:
            break
        if not part:
            break
        out += part
    return bytes(out)
