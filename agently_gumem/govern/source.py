"""Where an import is read from: a file, a text, lines, or data that was parsed already."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from agently_gumem.errors import ConfigError

Given: TypeAlias = "str | bytes | os.PathLike[str] | Iterable[Any] | Mapping[str, Any]"


@dataclass(frozen=True)
class Lines:
    """Lines that can be read again and again; those of a file are never held all at once."""

    path: Path | None = None
    held: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        if self.path is None:
            yield from self.held
            return
        try:
            # Only "\n" ends a line: what JSON may hold unescaped must not.
            with self.path.open(encoding="utf-8-sig", newline="\n") as file:
                yield from file
        except UnicodeDecodeError as error:
            raise ConfigError(f"{str(self.path)!r} is not written in UTF-8") from error
        except OSError as error:
            raise ConfigError(f"{str(self.path)!r} can't be read: {error.strerror}") from error

    def whole(self) -> Any:
        """Read everything as one piece of JSON.

        Raises:
            ConfigError: It is none.
        """
        try:
            return json.loads("".join(self) if self.path else "\n".join(self.held))
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                "this is no export of agently-gumem, no session of Agently and no export of mem0: "
                "the first line is no header, and the whole is no JSON"
            ) from error


def lines_of(source: Given) -> Lines | Any:
    """Take what an import is given.

    Returns:
        Lines; what is no text is returned as it is, as parsed data.

    Raises:
        ConfigError: It is nothing that can be read.
    """
    if isinstance(source, Mapping):
        return cast("Mapping[str, Any]", source)
    if isinstance(source, bytes):
        return _text(_decoded(source))
    if isinstance(source, str) and not source.strip():
        raise ConfigError("an empty text can't be read: import_ takes an export or a path")
    if isinstance(source, str):
        return _text(source) if _is_text(source) else Lines(Path(source))
    if isinstance(source, os.PathLike):
        return Lines(Path(source))
    if not isinstance(source, Iterable):
        raise ConfigError(
            "import_ takes a path, a text, an open file, lines or parsed JSON, not "
            f"{type(source).__name__}"
        )
    return _listed(list(source))


def _listed(parts: list[Any]) -> Any:
    """Take an open file or lines; a list of objects is parsed data."""
    if parts and all(isinstance(part, Mapping) for part in parts):
        return parts
    if not all(isinstance(part, str | bytes) for part in parts):
        raise ConfigError("import_ takes lines that are texts, or parsed JSON: a list of objects")
    told = [part if isinstance(part, str) else _decoded(part) for part in parts]
    return _text("\n".join(line.removesuffix("\n") for line in told))


def _is_text(given: str) -> bool:
    """Tell a text from a path: JSON begins with a bracket, and a path has one line."""
    return "\n" in given or given.lstrip("\ufeff \t\r")[:1] in ("{", "[")


def _text(text: str) -> Lines:
    return Lines(held=tuple(text.removeprefix("\ufeff").split("\n")))


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError("what import_ was given is not written in UTF-8") from error


def header_of(lines: Lines) -> Mapping[str, Any] | None:
    """Return the first line as an object, or None where it is none: then the whole is one."""
    first = next((line for line in lines if line.strip()), "")
    try:
        told: Any = json.loads(first)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", told) if isinstance(told, dict) else None
