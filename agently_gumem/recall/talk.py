"""The turns of a memory as conversation: what stands beside a turn, and how much it tells."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agently_gumem.recall.index import TURN, UserIndex

Scores = NDArray[np.float32]
A = TypeVar("A", Scores, NDArray[np.bool_])

_SESSION_BEST = 3
_SHORTEST_PAIR = 0.5  # two turns that nearly cancel each other out would make chance large


@dataclass(frozen=True)
class Turns:
    """The turns of an index in the order of their sessions."""

    rows: NDArray[np.intp]
    sessions: NDArray[np.int64]
    talk: NDArray[np.bool_]
    """Whether a turn's session is a talk; in a list of statements neighbours are chance."""
    pair: Scores
    """Length of the sum of a turn's vector and the one before it."""


def turns_of(index: UserIndex) -> Turns:
    """Return the turns of an index, made once for each state of it."""
    return index.derived("turns", lambda: _turns(index))


def _turns(index: UserIndex) -> Turns:
    rows = index.rows(TURN)
    sessions = index.column("session")[rows]
    if not len(rows):
        nothing = np.zeros(0, np.float32)
        return Turns(rows, sessions, np.zeros(0, np.bool_), nothing)
    before = np.where(np.r_[False, sessions[1:] == sessions[:-1]], np.r_[-1, rows[:-1]], -1)
    talk = _is_talk(sessions, index.column("who")[rows], index.column("asks")[rows] > 0)
    pair = np.sqrt(np.where(before >= 0, 2 + 2 * index.alike(rows, before), 1))
    return Turns(rows, sessions, talk, np.maximum(pair, _SHORTEST_PAIR).astype(np.float32))


def _is_talk(
    sessions: NDArray[np.int64], who: NDArray[np.int64], asks: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Tell of each turn whether its session has several speakers, or somebody asks in it."""
    starts, lengths = _segments(sessions)
    several = np.maximum.reduceat(who, starts) != np.minimum.reduceat(who, starts)
    asked = np.logical_or.reduceat(asks, starts)
    return np.repeat(several | asked, lengths)


def pairs(cosine: Scores, turns: Turns) -> Scores:
    """Return the cosine of each turn taken together with the one before it in its session."""
    before, _ = shifted(cosine, turns.sessions)
    return np.where(turns.talk, (cosine + before) / turns.pair, cosine)


def shifted(values: A, sessions: NDArray[np.int64], by: int = 1) -> tuple[A, A]:
    """Give each turn the value of the turn some places before and after it, else 0."""
    before, after = np.zeros_like(values), np.zeros_like(values)
    same = sessions[by:] == sessions[:-by]
    before[..., by:] = values[..., :-by] * same
    after[..., :-by] = values[..., by:] * same
    return before, after


def session_best(values: Scores, sessions: NDArray[np.int64]) -> Scores:
    """Give each turn the mean of the three best turns of its session."""
    if not values.size:
        return np.zeros_like(values)
    starts, lengths = _segments(sessions)
    numbers = np.repeat(np.arange(len(starts)), lengths)
    ordered = values[np.lexsort((values, numbers))]  # the best of a session at its end
    best = np.zeros(len(starts), np.float32)
    for place in range(1, _SESSION_BEST + 1):
        best += np.where(lengths >= place, ordered[np.maximum(starts + lengths - place, 0)], 0)
    return np.repeat(np.maximum(best / _SESSION_BEST, 0), lengths)


def _segments(sessions: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where each session starts, and its number of turns."""
    starts = np.flatnonzero(np.r_[True, sessions[1:] != sessions[:-1]])
    return starts, np.diff(np.r_[starts, len(sessions)])
