"""The report on a user: what an access request needs, in one JSON and one readable page."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from agently_gumem.govern.gather import all_records, older_messages, shown_memo, split
from agently_gumem.govern.history import moment_of
from agently_gumem.govern.part import UserPart
from agently_gumem.govern.recipients import recipients
from agently_gumem.govern.shown import labels_of
from agently_gumem.privacy import PrivacyPolicy, Treatment
from agently_gumem.records import Fact, Message, Summary, Topic, now
from agently_gumem.records.account import Forgotten, Lifetime, Source, UserReport
from agently_gumem.rows import Kept
from agently_gumem.scope import Scope, Services
from agently_gumem.worker import awaitable, blocking

PURPOSES = {
    "messages": "what was said and done: the source of all the rest, searched by later questions",
    "facts": "single things worth remembering, each with the messages that say it",
    "topics": "names under which Facts are kept together and found",
    "summaries": "what the Facts of a Topic say together, to answer in fewer words",
    "memo": "what matters to every question, shown to the model with each request",
}
# Before any expiry: what is stored is told, also where it only waits for the sweep.
_BEFORE_ALL = datetime(1, 1, 2, tzinfo=timezone.utc)


class Reporting(UserPart):
    """The part of a user's memory that gives account of all of it."""

    async def _report(self, *, access: str | Iterable[str] = (), purpose: str = "") -> UserReport:
        """Give account of all that is kept of the user in this space.

        `report.model_dump_json()` is the JSON, `report.to_html()` the readable page.

        Args:
            access: Labels; records that carry labels are in it only where all of theirs are named,
                and are counted in `withheld` otherwise.
            purpose: What the application keeps its memory for, in its own words.

        Raises:
            ConfigError: `access` is no label or list of labels.
            StoreError: The store can't be read.
        """
        labels = labels_of(access)
        async with self._use() as scope:
            records = list(all_records(scope, await older_messages(scope)))
            shown, withheld = split(records, labels, _BEFORE_ALL)
            usage = list(self._engine.usage.entries)
            agent = self._engine.agent_of(self.user_id, self.space)
            told = recipients(scope, usage, agent)
            held = _Held(shown)
            memo = shown_memo(scope.memo, records, shown) if scope.memo else None
            return UserReport(
                user_id=self.user_id,
                space=self.space,
                made_at=now(),
                paused=scope.paused,
                purpose=purpose,
                purposes=PURPOSES,
                stored=_stored(scope.services, scope),
                counts=held.counts(),
                memo=memo.value if memo else {},
                memo_facts=memo.facts if memo else {},
                facts=held.facts,
                summaries=held.summaries,
                topics=held.topics,
                messages=held.messages,
                sources=sources(held.messages),
                recipients=told,
                lifetimes=lifetimes(scope.services.privacy, shown),
                forgotten=forgotten(scope.tombs),
                withheld=withheld,
                notes=_notes(held.messages),
            )

    report, async_report = blocking(_report), awaitable(_report)


class _Held:
    """Records by layer."""

    def __init__(self, records: Sequence[Kept]) -> None:
        self.facts = [r for r in records if isinstance(r, Fact)]
        self.summaries = [r for r in records if isinstance(r, Summary)]
        self.topics = [r for r in records if isinstance(r, Topic)]
        self.messages = [r for r in records if isinstance(r, Message)]

    def counts(self) -> dict[str, int]:
        return {name: len(records) for name, records in vars(self).items()}


def _stored(services: Services, scope: Scope) -> dict[str, str]:
    store = services.store
    return {
        "store": f"Chroma, {store.kind}",
        "collection": str(store.collection(scope.rows.shard).name),
        "embedder": f"{services.embedder.name}, {services.embedder.dimension} dimensions",
    }


def sources(messages: Sequence[Message]) -> list[Source]:
    """Sum messages up by session (pure)."""
    by_session: dict[str, list[Message]] = {}
    for message in messages:
        by_session.setdefault(message.session_id, []).append(message)
    told: list[Source] = []
    for session_id, held in by_session.items():
        times = [m.timestamp for m in held if m.timestamp is not None]
        told.append(
            Source(
                session_id=session_id,
                messages=len(held),
                first=min(times, default=None),
                last=max(times, default=None),
            )
        )
    return told


def lifetimes(policy: PrivacyPolicy, records: Sequence[Kept]) -> list[Lifetime]:
    """Say how long what is kept: by category, by age, and what has a date of its own (pure)."""
    told = [
        Lifetime(what=name.replace("_", " "), rule=_rule(treatment))
        for name, treatment in _treatments(policy).items()
    ]
    for rule in policy.retention:
        limits = rule.model_dump(exclude={"older_than"}, exclude_defaults=True)
        what = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in limits.items()) or "everything"
        told.append(Lifetime(what=what, rule=f"forgotten when older than {rule.older_than}"))
    ends = [e for r in records if not isinstance(r, Topic) and (e := r.expires_at) is not None]
    if ends:
        rule = f"each at a date of its own, the first at {min(ends).isoformat()}"
        told.append(Lifetime(what=f"{len(ends)} records", rule=rule))
    told.append(Lifetime(what="all the rest", rule="until it is forgotten on request"))
    return told


def _treatments(policy: PrivacyPolicy) -> dict[str, Treatment]:
    found = {
        name: value
        for name in type(policy).model_fields
        if isinstance(value := getattr(policy, name), Treatment)
    }
    return {**found, **{str(k): v for k, v in policy.special_categories.items()}}


def _rule(treatment: Treatment) -> str:
    if treatment.action == "redact":
        return "never stored: a placeholder stands in its place"
    if treatment.action == "drop":
        return "never stored: the whole message is left out"
    life = f"for {treatment.lifetime}" if treatment.lifetime is not None else "as all the rest"
    label = f", shown only to who names {treatment.access!r}" if treatment.access else ""
    return f"kept {life}{label}"


def forgotten(tombs: Mapping[str, Mapping[str, Any]]) -> list[Forgotten]:
    """List what was forgotten and when, the oldest first; none of it says what it was (pure)."""
    told = [
        Forgotten(
            layer=f"{'part of a ' if tomb.get('cut') else ''}{tomb.get('layer') or 'record'}",
            at=moment_of(tomb.get("at")),
            by=str(tomb.get("by") or "operator"),
            reason=str(tomb.get("reason") or ""),
        )
        for tomb in tombs.values()
    ]
    return sorted(told, key=lambda f: f.at or _BEFORE_ALL)


def _notes(messages: Sequence[Message]) -> list[str]:
    sent = sum(m.status == "processed" for m in messages)
    return [
        "Requests to the model are counted since this process began. Earlier ones are known by "
        f"what came of them: {sent} messages were digested, and so were shown to a model.",
        "The application's own chat requests carry recalled memory to its model; they are not "
        "counted here.",
        "Sessions that the application saved, backups, exports, and what receivers kept are "
        "outside of this memory.",
    ]
