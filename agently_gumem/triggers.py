"""When to digest: small frozen objects that look at a state and answer yes or no."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agently_gumem.errors import ConfigError


@dataclass(frozen=True)
class TriggerState:
    """What a trigger may look at, after a turn, at a stage mark or at the end of a session."""

    messages: int = 0
    """Messages in the window."""
    chars: int = 0
    """Characters in the window."""
    tokens: int = 0
    """Tokens in the window, by the GUMem's counter."""
    turns: int = 0
    """Answered questions of this session that wait for a digest."""
    pending: int = 0
    """Messages of this session that wait for a digest."""
    stage: str | None = None
    """The stage that was just marked as ended."""
    ended: bool = False
    """The session was deactivated, switched away from, or closed."""
    idle_minutes: float = 0.0
    session_id: str = ""


TriggerFunction = Callable[[TriggerState], bool]


class Trigger:
    """Base of the triggers; `a | b` fires when any does, `a & b` when all do."""

    def __call__(self, state: TriggerState) -> bool:
        """Tell whether a digest is due."""
        raise NotImplementedError

    def __or__(self, other: "TriggerFunction") -> "AnyOf":
        return AnyOf((self, as_trigger(other)))

    def __and__(self, other: "TriggerFunction") -> "AllOf":
        return AllOf((self, as_trigger(other)))

    def __ror__(self, other: "TriggerFunction") -> "AnyOf":
        return AnyOf((as_trigger(other), self))

    def __rand__(self, other: "TriggerFunction") -> "AllOf":
        return AllOf((as_trigger(other), self))


@dataclass(frozen=True)
class AnyOf(Trigger):
    """Fires when any of its parts does."""

    parts: tuple[Trigger, ...]

    def __call__(self, state: TriggerState) -> bool:
        """Ask every part until one says yes."""
        return any(part(state) for part in self.parts)


@dataclass(frozen=True)
class AllOf(Trigger):
    """Fires when all of its parts do."""

    parts: tuple[Trigger, ...]

    def __call__(self, state: TriggerState) -> bool:
        """Ask every part until one says no."""
        return all(part(state) for part in self.parts)


@dataclass(frozen=True)
class WindowExceeds(Trigger):
    """Fires when the window holds strictly more than a limit; its limit also trims the window."""

    messages: int | None = None
    chars: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        limits = (self.messages, self.chars, self.tokens)
        if all(limit is None for limit in limits):
            raise ConfigError("WindowExceeds needs messages=, chars= or tokens=")
        for limit in limits:
            if limit is not None and (not isinstance(limit, int) or limit < 1):
                raise ConfigError(f"WindowExceeds takes whole numbers above 0, not {limit!r}")

    def __call__(self, state: TriggerState) -> bool:
        """Compare the window with each limit that was given."""
        pairs = (
            (state.messages, self.messages),
            (state.chars, self.chars),
            (state.tokens, self.tokens),
        )
        return any(limit is not None and held > limit for held, limit in pairs)


@dataclass(frozen=True)
class EveryNTurns(Trigger):
    """Fires when N answered questions wait for a digest."""

    n: int

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or self.n < 1:
            raise ConfigError(f"EveryNTurns takes a whole number above 0, not {self.n!r}")

    def __call__(self, state: TriggerState) -> bool:
        """Count the turns since the last digest."""
        return state.turns >= self.n


class StageBoundary(Trigger):
    """Fires when a stage is marked as ended; with names, only for those."""

    def __init__(self, *names: str) -> None:
        for name in names:
            if not isinstance(name, str) or not name:
                raise ConfigError(
                    f'StageBoundary takes names, as in ("plan", "order"), not {name!r}'
                )
        self.names = names

    def __call__(self, state: TriggerState) -> bool:
        """Look at the stage that was marked."""
        return state.stage is not None and (not self.names or state.stage in self.names)

    def __repr__(self) -> str:
        return f"StageBoundary({', '.join(map(repr, self.names))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StageBoundary) and other.names == self.names

    def __hash__(self) -> int:
        return hash(("StageBoundary", self.names))


@dataclass(frozen=True)
class SessionEnd(Trigger):
    """Fires when the session is deactivated, switched away from, or closed."""

    def __call__(self, state: TriggerState) -> bool:
        """Look at whether it ended."""
        return state.ended


@dataclass(frozen=True)
class Idle(Trigger):
    """Fires when no turn came for some minutes."""

    minutes: float = 10.0

    def __post_init__(self) -> None:
        if not self.minutes > 0:
            raise ConfigError(f"Idle takes minutes above 0, not {self.minutes!r}")

    def __call__(self, state: TriggerState) -> bool:
        """Compare how long it was quiet."""
        return state.idle_minutes >= self.minutes


@dataclass(frozen=True)
class Manual(Trigger):
    """Never fires: only `digest()` does it."""

    def __call__(self, state: TriggerState) -> bool:  # noqa: ARG002  # the shape of a trigger
        """Say no."""
        return False


@dataclass(frozen=True)
class Function(Trigger):
    """A developer's own function of a TriggerState."""

    function: TriggerFunction

    def __call__(self, state: TriggerState) -> bool:
        """Ask it."""
        return bool(self.function(state))


def as_trigger(when: TriggerFunction) -> Trigger:
    """Take a trigger or any function of a TriggerState.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(when, Trigger):
        return when
    if inspect.iscoroutinefunction(when):
        raise ConfigError(f"when={when!r} is async: a trigger answers at once, without await")
    if callable(when) and not isinstance(when, type):
        return Function(when)
    raise ConfigError(f"when= takes a trigger or a function of a TriggerState, not {when!r}")


def parts(when: Trigger) -> Iterator[Trigger]:
    """Walk through a trigger and what it is made of."""
    yield when
    if isinstance(when, AnyOf | AllOf):
        for part in when.parts:
            yield from parts(part)


@dataclass(frozen=True)
class Window:
    """The limit of the window and what a cut leaves of it."""

    limit: WindowExceeds
    keep: int

    def cut(self, roles: list[str], sizes: list[tuple[int, int]]) -> int:
        """Say how many of the oldest messages leave; 0 while the window is within its limit.

        Args:
            roles: The role of each message, oldest first.
            sizes: Characters and tokens of each.

        Returns:
            A cut between turns: what stays begins with a message of the user. Counted in messages
            it goes down to `keep`, rounded up to whole turns; by characters or tokens to half of
            the limit. The newest turn always stays.
        """
        starts = [i for i in range(len(roles)) if i == 0 or _opens(roles, i)]
        cuts = [0]
        if self._over(self.limit.messages, len(roles)):
            cuts.append(max(s for s in starts if s == 0 or len(roles) - s >= self.keep))
        for column, limit in enumerate((self.limit.chars, self.limit.tokens)):
            column_sizes = [size[column] for size in sizes]
            if limit is not None and sum(column_sizes) > limit:
                small = [s for s in starts if sum(column_sizes[s:]) <= limit // 2]
                cuts.append(min(small, default=starts[-1]))
        return max(cuts)

    @staticmethod
    def _over(limit: int | None, held: int) -> bool:
        return limit is not None and held > limit


def _opens(roles: list[str], index: int) -> bool:
    """Tell whether a turn begins here: the first of the user's messages after another role's."""
    return roles[index] == "user" and roles[index - 1] != "user"


def _strictest(limits: list[WindowExceeds]) -> WindowExceeds:
    """Make one limit of several: the smallest of each measure."""

    def least(values: list[int | None]) -> int | None:
        return min((v for v in values if v is not None), default=None)

    return WindowExceeds(
        messages=least([limit.messages for limit in limits]),
        chars=least([limit.chars for limit in limits]),
        tokens=least([limit.tokens for limit in limits]),
    )


def window_of(when: Trigger, keep: int, default: int = 12) -> Window:
    """Read the window's limit out of a trigger: its WindowExceeds, the strictest of several.

    Without one it is `default` messages.

    Raises:
        ConfigError: `keep` is no whole number above 0, or would leave nothing to cut.
    """
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
        raise ConfigError(f"keep={keep!r} takes a whole number above 0")
    found = [p for p in parts(when) if isinstance(p, WindowExceeds)]
    limit = _strictest(found) if found else WindowExceeds(messages=default)
    if limit.messages is not None and keep > limit.messages - 2:
        raise ConfigError(
            f"keep={keep} leaves nothing to cut: the window's limit is {limit.messages} messages, "
            f"so keep at most {limit.messages - 2}"
        )
    return Window(limit, keep)
