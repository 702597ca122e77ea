"""The prompts: for each one a template, a typed function that fills it, and its answer model."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import jinja2
from jinja2.environment import create_cache
from jinja2.meta import find_undeclared_variables
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agently_gumem.errors import ConfigError
from agently_gumem.records import Fact, Message
from agently_gumem.text import estimate_tokens, make_safe

A = TypeVar("A", bound=BaseModel)


@dataclass(frozen=True)
class Prompt:
    """One request to the model: the text, what the answer must hold, and how it is read."""

    stage: str
    text: str
    output: Mapping[str, Any]
    """Agently's output notation."""
    answer: type[BaseModel]
    shown: frozenset[str] = frozenset()
    """Refs of the known Facts that stand in the text; of any other a verdict is made up."""


class _Lenient(BaseModel):
    """An answer's part: what the model adds is ignored, a null is the default."""

    model_config = ConfigDict(extra="ignore")

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        known = cls.model_fields[info.field_name]
        if value is None and not known.is_required():
            return known.get_default(call_default_factory=True)
        return value


class FactDraft(_Lenient):
    """A Fact as the model proposes it; `sources` are references of the request."""

    ref: str = ""
    content: str = Field(min_length=1)
    kind: str = "fact"
    topic: str = ""
    subject: str = "user"
    sources: list[str] = Field(min_length=1)
    entities: list[str] = Field(default_factory=list)
    labels: list[str] = Field(default_factory=list)
    certainty: str = "stated"
    confidence: float = 1.0
    start: str = ""
    end: str = ""
    same_as: str = ""
    replaces: list[str] = Field(default_factory=list)
    special: str = ""
    """health, sex, faith, politics or origin, where it is about that of a person."""


class MemoPatch(_Lenient):
    """The new value of one top-level key of the memo, and the Facts behind it."""

    key: str
    value: Any = None
    facts: list[str] = Field(default_factory=list)


class ExtractAnswer(_Lenient):
    """What `extract.jinja` asks for."""

    facts: list[FactDraft]
    memo: list[MemoPatch] = Field(default_factory=list[MemoPatch])


class SummaryDraft(_Lenient):
    """A Summary as the model proposes it; `facts` are references of the request."""

    topic: str
    content: str = Field(min_length=1)
    facts: list[str] = Field(min_length=1)
    labels: list[str] = Field(default_factory=list)
    entities: list[str] = Field(default_factory=list)
    confidence: float = 1.0


class SameTopic(_Lenient):
    """Two of the topics shown that are one."""

    keep: str
    other: str


class SummarizeAnswer(_Lenient):
    """What `summarize.jinja` asks for."""

    summaries: list[SummaryDraft]
    same_topics: list[SameTopic] = Field(default_factory=list[SameTopic])


class MemoAnswer(BaseModel):
    """What `memo.jinja` asks for."""

    memo: list[MemoPatch]


_MEMO_OUTPUT = [
    {
        "key": (str, "of MEMO SCHEMA"),
        "value": ("any", "its whole new value"),
        "facts": [(str, "ref that it rests on")],
    }
]
_EXTRACT_OUTPUT = {
    "facts": [
        {
            "ref": (str, "f1, f2, ..."),
            "content": (str, "the fact"),
            "kind": (str, "preference|fact|constraint|plan|identity|action|behavior"),
            "topic": (str,),
            "subject": (str,),
            "sources": [(str, "m1")],
            "entities": [(str, "name in it")],
            "labels": [(str, "class word")],
            "certainty": (str, "stated|observed|inferred"),
            "confidence": (float, "0.0-1.0"),
            "start": (str, "ISO date or time"),
            "end": (str,),
            "same_as": (str, "k1"),
            "replaces": [(str, "k1")],
            "special": (str,),
        }
    ],
    "memo": _MEMO_OUTPUT,
}
_SUMMARIZE_OUTPUT = {
    "summaries": [
        {
            "topic": (str, "the topic as given"),
            "content": (str, "two to four sentences"),
            "facts": [(str, "refs of the facts that it tells")],
            "labels": [(str, "a class word")],
            "entities": [(str, "names in the summary")],
            "confidence": (float, "0.0-1.0"),
        }
    ],
    "same_topics": [
        {"keep": (str, "a topic as given"), "other": (str, "another name for the same")}
    ],
}


# Characters of a page or a speaker that a request shows.
_NAME = 80
# Tokens of known Facts, and of names of topics, that a request shows, the nearest of each: rules,
# schema, memo and these come to 1,600 at most with the default schema, whatever is known.
_KNOWN_TOKENS = 320
_TOPIC_TOKENS = 75
_COMMON = frozenset({"instruct", "language"})
# What each template is filled with.
_VARIABLES: dict[str, frozenset[str]] = {
    "extract": _COMMON | {"instructions", "messages", "known", "topics", "memo", "memo_schema"},
    "summarize": _COMMON | {"instructions", "topics", "facts", "names"},
    "memo": _COMMON | {"facts", "memo_schema"},
    "context": frozenset({"memo", "items", "layers", "chinese"}),
}


def json_line(value: Any) -> str:
    """Write a value as one line of JSON that no text in it can leave.

    A line break can't end it, and `${` is escaped: Agently replaces `${input}` and its like.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("${", "$\\u007b")


def _within(lines: Iterable[tuple[str, str]], tokens: int) -> dict[str, str]:
    """Take the first line, however long, and of the rest, the first ones first, those that fit."""
    taken: dict[str, str] = {}
    for name, line in lines:
        size = estimate_tokens(line) + 1
        if taken and size > tokens:
            continue
        tokens -= size
        taken[name] = line
    return taken


def lean_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Write out what a JSON Schema refers to, and leave out its defaults.

    Where it refers to itself it says "anything": what the model writes is validated anyhow. Where
    that would be longer than the schema itself, the references and `$defs` stay.
    """
    whole = {k: v for k, v in schema.items() if k != "$defs"}
    named: Mapping[str, Any] = schema.get("$defs", {})
    most = len(json_line(schema))
    try:
        # No part is shorter than a character: what has more parts is longer.
        written = _Lean(most).write(whole, named)
    except _TooLongError:
        return _referring(whole, named)
    return written if len(json_line(written)) <= most else _referring(whole, named)


def _referring(whole: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the references; only the memo's own keys always stand at the top."""
    lean = _Lean()
    first = {k: v for k, v in whole.items() if k != "$ref"}
    if "$ref" in whole:
        first = {**named.get(_place(whole["$ref"]), {}), **first}
    defined = {name: lean.write(part) for name, part in named.items()}
    return {**lean.write(first), "$defs": defined}


def _place(ref: str) -> str:
    return ref.rsplit("/", 1)[-1]


class _TooLongError(Exception):
    """More parts than there is room for."""


@dataclass
class _Lean:
    """Writes a schema without its defaults, part by part."""

    room: int | None = None
    """So many parts at most: models that refer to each other multiply."""

    def write(self, schema: Any, named: Mapping[str, Any] | None = None) -> Any:
        """Write one part, and in it what it refers to where that is given."""
        self._count()
        if isinstance(schema, list):
            return [self.write(part, named) for part in cast("list[Any]", schema)]
        if not isinstance(schema, Mapping):
            return schema
        held = {k: v for k, v in cast("Mapping[str, Any]", schema).items() if k != "default"}
        if "$ref" in held and named is not None:
            place = _place(held.pop("$ref"))
            inner = {name: part for name, part in named.items() if name != place}
            return {**self.write(named.get(place, {}), inner), **held}
        fields: Mapping[str, Any] = held.get("properties", {})
        told = {k: self.write(v, named) for k, v in held.items() if k != "properties"}
        if fields:  # names of fields are no words of the schema: one may be called "default"
            told["properties"] = {name: self.write(part, named) for name, part in fields.items()}
        return told

    def _count(self) -> None:
        if self.room is not None:
            self.room -= 1
            if self.room < 0:
                raise _TooLongError


def _message_line(ref: str, message: Message, session: str) -> str:
    shown: dict[str, Any] = {"ref": ref, "session": session}
    if message.timestamp is not None:
        shown["time"] = message.timestamp.isoformat(timespec="minutes")
        shown["day"] = message.timestamp.strftime("%A")
    shown["role"] = message.role
    if message.speaker:
        shown["speaker"] = message.speaker[:_NAME]
    if message.event_type != "message":
        shown["event"] = message.event_type
    if message.page:
        shown["page"] = message.page[:_NAME]
    shown["text"] = message.content
    return json_line(shown)


_COUNT = re.compile(r" ?[(（]\d+ (?:times|次)[)）]$")


def _fact_line(ref: str, fact: Fact) -> str:
    # A count grows with each event: what a Summary or a memo said of it would be wrong tomorrow.
    said = _COUNT.sub("", fact.content) if fact.kind == "behavior" else fact.content
    shown: dict[str, Any] = {"ref": ref, "content": said}
    if fact.kind != "fact":
        shown["kind"] = fact.kind
    if fact.topic:
        shown["topic"] = fact.topic
    if fact.subject != "user":
        shown["subject"] = fact.subject
    if fact.certainty != "stated":
        shown["certainty"] = fact.certainty
    if fact.valid_from is not None:
        shown["since"] = fact.valid_from.date().isoformat()
    return json_line(shown)


@dataclass(frozen=True)
class TopicFacts:
    """A Topic that gathered enough: its Facts by reference, and its Summary so far."""

    name: str
    facts: Mapping[str, Fact]
    previous: str = ""


@dataclass(frozen=True)
class Prompts:
    """Fills the templates; a developer's folder comes before ours.

    Raises:
        ConfigError: A template is missing or broken, or uses a variable that does not exist.
    """

    folder: Path | None = None
    instruct: str = ""
    language: str = "source"
    _environment: jinja2.Environment = field(init=False, repr=False)

    def __post_init__(self) -> None:
        loaders: list[jinja2.BaseLoader] = [jinja2.PackageLoader("agently_gumem", "templates")]
        if self.folder is not None:
            if not Path(self.folder).is_dir():
                raise ConfigError(f"templates={str(self.folder)!r} is no folder")
            loaders.insert(0, jinja2.FileSystemLoader(str(self.folder)))
        environment = jinja2.Environment(
            loader=jinja2.ChoiceLoader(loaders),
            undefined=jinja2.StrictUndefined,
            autoescape=False,  # noqa: S701  # plain text for a model, never HTML
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=False,
        )
        environment.filters["json_line"] = json_line
        object.__setattr__(self, "_environment", environment)
        if self.folder is not None:
            self._check(Path(self.folder))

    def renew(self) -> None:
        """Let go of a cache that a forked child inherits, whose lock no thread of it may hold."""
        self._environment.cache = create_cache(400)

    def _check(self, folder: Path) -> None:
        """Refuse a developer's template now, not in the middle of a conversation."""
        for name, variables in _VARIABLES.items():
            path = folder / f"{name}.jinja"
            if not path.is_file():
                continue
            try:
                tree = self._environment.parse(path.read_text(encoding="utf-8"))
            except (jinja2.TemplateError, UnicodeDecodeError) as error:
                raise ConfigError(f"template {path}: {error}") from error
            unknown = sorted(find_undeclared_variables(tree) - variables)
            if unknown:
                raise ConfigError(
                    f"template {path}: no variable {', '.join(unknown)}; it has "
                    f"{', '.join(sorted(variables))}"
                )

    def render(self, template: str, **values: Any) -> str:
        """Fill one template by name, without its suffix."""
        try:
            text = self._environment.get_template(f"{template}.jinja").render(**values)
        except jinja2.TemplateError as error:
            raise ConfigError(f"template {template}.jinja: {error}") from error
        return text.strip()

    def shows(self, template: str, variable: str) -> bool:
        """Tell whether a template, which may be the developer's, has a place for a variable."""
        loader = cast("jinja2.BaseLoader", self._environment.loader)
        source, _, _ = loader.get_source(self._environment, f"{template}.jinja")
        return variable in find_undeclared_variables(self._environment.parse(source))

    def extract(
        self,
        messages: Mapping[str, Message],
        candidates: Mapping[str, Fact],
        topics: Iterable[str],
        memo: Mapping[str, Any],
        memo_schema: Mapping[str, Any],
        instructions: Sequence[str] = (),
    ) -> Prompt:
        """Ask for the Facts in new messages, verdicts on known ones, and a patch of the memo.

        `instructions` are what hooks add to the rules of the application.
        """
        sessions: dict[str, str] = {}
        lines = [
            _message_line(ref, m, sessions.setdefault(m.session_id, f"s{len(sessions) + 1}"))
            for ref, m in messages.items()
        ]
        known = _within(((r, _fact_line(r, f)) for r, f in candidates.items()), _KNOWN_TOKENS)
        text = self.render(
            "extract",
            messages=lines,
            known=list(known.values()),
            topics=list(_within(((name, name) for name in topics), _TOPIC_TOKENS)),
            memo=memo,
            memo_schema=lean_schema(memo_schema),
            instruct=self.instruct,
            instructions=instructions,
            language=self.language,
        )
        return Prompt("extract", text, _EXTRACT_OUTPUT, ExtractAnswer, frozenset(known))

    def summarize(
        self,
        topics: Sequence[TopicFacts],
        names: Iterable[str],
        instructions: Sequence[str] = (),
    ) -> Prompt:
        """Ask for the Summaries of Topics that gathered enough new Facts."""
        shown = [
            json_line({"topic": t.name, **({"previous": t.previous} if t.previous else {})})
            for t in topics
        ]
        facts = [_fact_line(ref, fact) for t in topics for ref, fact in t.facts.items()]
        text = self.render(
            "summarize",
            topics=shown,
            facts=facts,
            names=list(names),
            instruct=self.instruct,
            instructions=instructions,
            language=self.language,
        )
        return Prompt("summarize", text, _SUMMARIZE_OUTPUT, SummarizeAnswer)

    def memo(self, facts: Mapping[str, Fact], memo_schema: Mapping[str, Any]) -> Prompt:
        """Ask for a whole memo, from active Facts alone."""
        text = self.render(
            "memo",
            facts=[_fact_line(ref, fact) for ref, fact in facts.items()],
            memo_schema=lean_schema(memo_schema),
            instruct=self.instruct,
            language=self.language,
        )
        return Prompt("memo", text, {"memo": _MEMO_OUTPUT}, MemoAnswer)


def _made_safe(value: Any) -> Any:
    """Replace what no record can hold: a lone surrogate of a broken escape would cost its item."""
    if isinstance(value, str):
        return make_safe(value)
    if isinstance(value, Mapping):
        return {k: _made_safe(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    return [_made_safe(v) for v in cast("list[Any]", value)] if isinstance(value, list) else value


def read_answer(kind: type[A], data: Any) -> tuple[A | None, list[str]]:
    """Validate an answer; items that are broken are left out and named.

    Returns:
        The answer with the items that are whole, or None where its frame is broken, and what
        was wrong (places and reasons, never content).
    """
    if not isinstance(data, Mapping):
        return None, [f"the answer is no JSON object but {type(data).__name__}"]
    whole: dict[str, Any] = _made_safe(dict(cast("Mapping[str, Any]", data)))
    problems: list[str] = []
    for _ in range(2):
        try:
            return kind.model_validate(whole), problems
        except ValidationError as error:
            faults = error.errors(include_input=False, include_url=False)
            problems += [f"{'.'.join(map(str, f['loc'][:3]))}: {f['type']}" for f in faults]
            broken = {(str(f["loc"][0]), f["loc"][1]) for f in faults if len(f["loc"]) > 1}
            frame = {str(f["loc"][0]) for f in faults if len(f["loc"]) == 1}
            if any(not f["loc"] for f in faults) or any(
                kind.model_fields[n].is_required() for n in frame
            ):
                return None, problems
            for name in frame:
                del whole[name]
            for name in {name for name, _ in broken}:
                items = whole[name]
                whole[name] = [x for i, x in enumerate(items) if (name, i) not in broken]
    return None, problems
