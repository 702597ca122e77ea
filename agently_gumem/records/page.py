"""The readable page of a report: one HTML file that loads nothing, with every text escaped."""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%;margin:.5rem 0 2rem}"
    "th,td{border:1px solid #ccc;padding:.3rem .5rem;text-align:left;vertical-align:top}"
    "th{background:#f3f3f3}td{overflow-wrap:anywhere;white-space:pre-wrap}"
    "bdi{unicode-bidi:isolate}"
)
# No script, no image, no font: the page shows what it holds and asks nobody for anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_NOTHING: tuple[Any, ...] = (None, "", [], {})
# What HTML can't hold, or what would turn around the text beside it.
_UNSEEN = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ufdd0-\ufdef\ufffe\uffff]"
)

_TABLES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Where it came from", "sources", ("session_id", "messages", "first", "last")),
    (
        "Who received it",
        "recipients",
        ("kind", "where", "what", "count", "failed", "first", "last"),
    ),
    ("How long it is kept", "lifetimes", ("what", "rule")),
    ("What was forgotten", "forgotten", ("layer", "at", "by", "reason")),
    (
        "Facts",
        "facts",
        ("content", "kind", "subject", "topic", "certainty", "confidence", "validity", "valid_from",
         "valid_to", "expires_at", "source_message_ids", "id"),
    ),
    (
        "Summaries",
        "summaries",
        ("content", "topic", "validity", "memory_status", "confidence", "expires_at",
         "source_facts", "id"),
    ),
    ("Topics", "topics", ("name", "aliases", "updated_at", "id")),
    (
        "Messages and actions",
        "messages",
        ("timestamp", "session_id", "role", "speaker", "event_type", "content", "page", "anchors",
         "metadata", "expires_at", "id"),
    ),
)  # fmt: skip


def to_html(report: Mapping[str, Any]) -> str:
    """Render a report, given as plain data (pure)."""
    title = f"What is remembered of {report['user_id']}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{_plain(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(title)}</h1>",
        _pairs("This report", _about(report)),
        _pairs("What it is kept for", report["purposes"]),
        _pairs("Left out, by access label", report["withheld"]),
        _list("What this report can't know", report["notes"]),
        _memo(report["memo"], report["memo_facts"]),
        *(_table(name, columns, report[key]) for name, key, columns in _TABLES),
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _about(report: Mapping[str, Any]) -> dict[str, Any]:
    told = {
        "user": report["user_id"],
        "space": report["space"],
        "made at": report["made_at"],
        "purpose": report["purpose"],
        "paused": "yes" if report["paused"] else "no",
        **report["stored"],
        **report["counts"],
    }
    return {name: value for name, value in told.items() if value != ""}


def _memo(value: Mapping[str, Any], facts: Mapping[str, Sequence[str]]) -> str:
    rows = [{"key": k, "value": v, "facts": facts.get(k, [])} for k, v in value.items()]
    return _table("Memo", ("key", "value", "facts"), rows)


def _table(name: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    shown = [[row.get(column) for column in columns] for row in rows]
    if not shown:
        return ""
    used = [i for i in range(len(columns)) if any(row[i] not in _NOTHING for row in shown)]
    head = "".join(f"<th>{_plain(columns[i].replace('_', ' '))}</th>" for i in used)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{_text(row[i])}</td>" for i in used) + "</tr>" for row in shown
    )
    return f"<h2>{_plain(name)} ({len(shown)})</h2>\n<table><tr>{head}</tr>\n{body}\n</table>"


def _pairs(name: str, values: Mapping[str, Any]) -> str:
    if not values:
        return ""
    rows = "\n".join(
        f"<tr><th>{_text(k.replace('_', ' '))}</th><td>{_text(v)}</td></tr>"
        for k, v in values.items()
    )
    return f"<h2>{_plain(name)}</h2>\n<table>{rows}</table>"


def _list(name: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    items = "\n".join(f"<li>{_text(line)}</li>" for line in lines)
    return f"<h2>{_plain(name)}</h2>\n<ul>{items}</ul>"


def _text(value: Any) -> str:
    """Show a value inside an element: escaped, and its direction kept to itself."""
    return f"<bdi>{_plain(_flat(value))}</bdi>" if value not in _NOTHING else ""


def _flat(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):  # pyright: ignore[reportUnknownVariableType]
        return ", ".join(value)  # pyright: ignore[reportUnknownArgumentType]
    return json.dumps(value, ensure_ascii=False)


def _plain(text: str) -> str:
    return html.escape(_UNSEEN.sub("\ufffd", text), quote=True)
