"""Every error that the package raises, in one tree.

GUMemError
 ├── ConfigError        a parameter, record or template is wrong; the caller mends it
 ├── StoreError         Chroma refused or lost its data
 ├── EmbedderMismatch   the store was made by another embedder, dimension or schema
 ├── StoreLocked        another process has the store's folder open
 ├── EmbedderError      the embedding function failed on a text, or gave no usable vector
 ├── ModelError         the memory's own model request failed or gave no valid answer
 │    └── LimitReached  it was not sent, or refused: a limit has to pass first
 ├── HookError          a hook failed, timed out or gave what it may not give
 ├── NotFound           no record of that id for that user
 └── Closed             used after close, in a forked child, or on the worker's own thread
"""

AFTER_A_FORK = (
    "open the memory in the children alone, start them with multiprocessing's 'spawn', or use a "
    "server: GUMem(client=chromadb.HttpClient(...))"
)
"""What to do where a forked child can't use what its parent has in its process."""


class GUMemError(Exception):
    """Root of every error of this package."""


class ConfigError(GUMemError, ValueError):
    """A parameter, a record or a template is wrong; the message names it and its value."""


class StoreError(GUMemError):
    """Chroma refused a call, or what it returned can't be read."""


class EmbedderMismatch(StoreError):  # noqa: N818  # the name is the contract
    """The store was made with another embedder, dimension or schema version."""


class StoreLocked(StoreError):  # noqa: N818  # a kind of StoreError, as EmbedderMismatch is
    """Another process has the folder of the store open; `pid` is its number, where it is known."""

    def __init__(self, message: str, *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class EmbedderError(GUMemError):
    """The embedding function failed on a text, or gave a vector that is no number.

    `answered` is False where it did not answer in time.
    """

    def __init__(self, message: str, *, answered: bool = True) -> None:
        super().__init__(message)
        self.answered = answered


class ModelError(GUMemError):
    """The memory's own model request failed.

    `answered` tells the two kinds apart: the model gave an answer that is not valid (True), or
    there was no answer at all: down, too slow, refused (False).
    """

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__(message)
        self.answered = answered


class LimitReached(ModelError):  # noqa: N818  # no fault: it may be tried again
    """A request of the memory has to wait: what was to be digested is pending, and not lost.

    `limit` names a field of `Limits` ("requests_per_minute", "tokens_per_user_day"), or is "model"
    where the model itself refused (429, or 503 with Retry-After). `seconds` says how long from now,
    `where` which model, `refused` whether this very request was sent and refused.
    """

    def __init__(
        self, message: str, *, limit: str, seconds: float, where: str = "", refused: bool = False
    ) -> None:
        super().__init__(message)
        self.refused = refused
        self.limit = limit
        self.seconds = seconds
        self.where = where


class HookError(GUMemError):
    """A hook of the application failed, or gave what it may not give.

    `answered` is False where there was no answer at all: too slow, busy, no connection.
    """

    def __init__(self, message: str, *, answered: bool = True) -> None:
        super().__init__(message)
        self.answered = answered


class NotFound(GUMemError, KeyError):  # noqa: N818  # the name is the contract
    """No record of that id belongs to that user."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class Closed(GUMemError, RuntimeError):  # noqa: N818  # the name is the contract
    """The object was closed, is a parent process's, or is used where it would wait on itself."""
