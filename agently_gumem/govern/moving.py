"""Export a user's memory, and import one."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agently_gumem.engine import checked_name, switched_off
from agently_gumem.errors import ConfigError
from agently_gumem.govern import foreign
from agently_gumem.govern.gather import all_records, older_messages, shown_memo, split
from agently_gumem.govern.importing import Importer, store_name
from agently_gumem.govern.part import UserPart
from agently_gumem.govern.plan import check
from agently_gumem.govern.portable import (
    FORMAT,
    VERSION,
    Header,
    Portable,
    flag_line,
    header_line,
    record_line,
)
from agently_gumem.govern.recipients import EXPORT
from agently_gumem.govern.shown import labels_of
from agently_gumem.govern.source import Given, Lines, header_of, lines_of
from agently_gumem.records import now
from agently_gumem.records.account import ImportCount, ImportReport
from agently_gumem.remember import hooking, journal
from agently_gumem.remember.align import Mirror
from agently_gumem.rows import layer_of
from agently_gumem.scope import Scope
from agently_gumem.worker import awaitable, blocking


class Moving(UserPart):
    """The part of a user's memory that comes and goes as a file."""

    async def _export(
        self, path: str | os.PathLike[str] | None = None, *, access: str | Iterable[str] = ()
    ) -> str | Path:
        """Write all that is kept of the user in this space, as JSON Lines.

        The first line is a header; then Topics, Summaries, Facts, messages, the memo, and what
        was marked and forgotten, as keyed hashes. Vectors are left out.

        Args:
            path: A file, written whole or not at all, and readable by its owner only; None gives
                the text.
            access: Labels; records that carry labels are in it only where all of theirs are named,
                and are counted in the header otherwise.

        Returns:
            The path, or the text.

        Raises:
            ConfigError: `path` can't be written, or `access` is no label or list of labels.
            StoreError: The store can't be read.
        """
        labels = labels_of(access)
        if path is not None and not isinstance(path, str | os.PathLike):
            raise ConfigError(f"export takes a path, or None for the text, not {path!r}")
        target = Path(path) if path is not None else None
        async with self._use() as scope:
            lines = await _lines(scope, labels)
            thread = scope.services.worker.thread
            told = await (thread(_text, lines) if target is None else thread(_file, lines, target))
            whose = (self.user_id, self.space)
            scope.services.hooks.sent.note(whose, EXPORT, "", EXPORT, now())
            await hooking.write(scope, [])
        return told

    async def _import(
        self,
        source: Given,
        *,
        format: str | None = None,
        as_user: bool = False,
        session_id: str | None = None,
    ) -> ImportReport:
        """Take in an export of this memory, a session of Agently, or an export of mem0.

        Records keep their ids: what is there already is known, or brought up to date where the
        file has a newer state of it. What was forgotten here does not come in, nor what is not for
        memory. All lines are checked before anything is written; one that breaks off is run again.

        Args:
            source: A path, a text, an open file, lines, or parsed JSON.
            format: "gumem", "agently-session" or "mem0"; None finds out.
            as_user: Take in what belongs to another user or space as this one's.
            session_id: Under which session messages of Agently (None: its own id) and of mem0
                (None: "mem0") are kept.

        Raises:
            ConfigError: It is no such file, is broken (names the line) or somebody else's; nothing
                was written. Or the user's memory is paused.
            HookError: A hook failed that stops the work then; run it again.
            StoreError: The store failed; run it again.
        """
        if format not in (None, *foreign.FORMATS):
            names = ", ".join(map(repr, foreign.FORMATS))
            raise ConfigError(f"format={format!r} is none of {names}, or None to find out")
        if switched_off():
            raise ConfigError("GUMEM_OFF is set: nothing is taken in; unset it to import")
        async with self._use() as scope:
            if scope.paused:
                raise ConfigError("the user's memory is paused: resume() it before an import")
            thread = scope.services.worker.thread
            found, data = await thread(_read, source, format)
            if found == foreign.GUMEM:
                plan = await thread(check, data, self.user_id, self.space, as_user=as_user)
                whose = checked_name(plan.header.user_id, "user_id of the export")
                place = checked_name(plan.header.space, "space of the export")
                async with self._engine.use(whose, place) as origin:
                    report = await Importer(scope, data, plan, origin).run()
            elif found == foreign.SESSION:
                report = await _session(scope, data, session_id)
            else:
                messages = await thread(foreign.mem0_messages, data, self.user_id, as_user=as_user)
                name = checked_name(session_id or foreign.MEM0, "session_id")
                report = await _added(scope, messages, name)
        counts = {k: getattr(report, k) for k in ("added", "updated", "known", "refused")}
        scope.tell("imported", {"format": report.format, **counts})
        return report

    export, async_export = blocking(_export), awaitable(_export)
    import_, async_import_ = blocking(_import), awaitable(_import)


async def _lines(scope: Scope, labels: frozenset[str]) -> Iterator[str]:
    """Take what is stored at this moment; its lines are made one by one."""
    records = list(all_records(scope, await older_messages(scope)))
    memo, marks, skips = scope.memo, sorted(scope.marks), sorted(scope.passed_over)
    tombs = dict(scope.tombs)
    shown, withheld = split(records, labels)
    told: list[Portable] = [*shown]
    if memo is not None:
        told.append(shown_memo(memo, records, shown))
    counts: dict[str, int] = {}
    for record in told:
        counts[layer_of(record)] = counts.get(layer_of(record), 0) + 1
    header = Header(
        format=FORMAT,
        version=VERSION,
        user_id=scope.user_id,
        space=scope.space,
        exported_at=now(),
        embedder=scope.services.embedder.name,
        memo_schema=scope.services.schema.digest,
        store=store_name(scope),
        counts={**counts, "mark": len(marks), "skip": len(skips), "forgotten": len(tombs)},
        withheld=withheld,
    )

    def written() -> Iterator[str]:
        yield header_line(header)
        yield from map(record_line, told)
        yield from (flag_line("mark", mark) for mark in marks)
        yield from (flag_line("skip", skip) for skip in skips)
        yield from (flag_line("forgotten", tomb, said) for tomb, said in tombs.items())

    return written()


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _file(lines: Iterable[str], path: Path) -> Path:
    """Write beside the file, and put it in its place when it is whole."""
    beside: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        beside = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"path={str(path)!r} can't be written: {error.strerror}") from error
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)
    return path


def _read(source: Given, given: str | None) -> tuple[str, Any]:
    """Find out what it is, and read what is no export of ours."""
    lines = lines_of(source)
    if isinstance(lines, Lines):
        header = header_of(lines)
        ours = header is not None and "format" in header
        if given == foreign.GUMEM or (given is None and ours):
            return foreign.GUMEM, lines
        lines = lines.whole()
    if given == foreign.GUMEM:
        raise ConfigError("an export of agently-gumem is a file or lines, not parsed data")
    return given or foreign.format_of(lines), lines


async def _session(scope: Scope, data: Any, session_id: str | None) -> ImportReport:
    """Journal the history of a session as one that is restored: without times, each once."""
    own, history = foreign.session_of(data)
    name = checked_name(session_id or own, "session_id")
    mirror = Mirror()
    new = {m.id for m in await journal.journal(scope, name, mirror, history)}
    known = sum(i is not None and i not in new for i in mirror.ids)
    left = sum(i is None for i in mirror.ids)
    counts = {"message": ImportCount(added=len(new), known=known, refused=left)}
    reasons = {"selection": left} if left else {}
    return ImportReport(format=foreign.SESSION, layers=counts, reasons=reasons)


async def _added(scope: Scope, messages: list[Any], session_id: str) -> ImportReport:
    """Add messages, in parts, so that turns of the user come between."""
    before = set(scope.index.messages) | scope.left_out
    kept: set[str] = set()
    for start in range(0, len(messages), 500):
        part = messages[start : start + 500]
        kept |= {m.id for m in await journal.add(scope, session_id, part)}
    given = {m.id for m in messages}
    refused = {i: "forgotten" if scope.refuses(i) else "selection" for i in given - kept}
    count = ImportCount(added=len(kept - before), known=len(kept & before), refused=len(refused))
    reasons: dict[str, int] = {}
    for reason in refused.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    return ImportReport(format=foreign.MEM0, layers={"message": count}, reasons=reasons)
