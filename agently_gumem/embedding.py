"""Embed texts one way or another: one that the embedder refuses holds up none beside it."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agently_gumem.errors import EmbedderError

# Calls of an embedder that fail in a row before the rest waits for the next digest or load: it is
# down then, and each call may take its time. One bad text among 64 is found within seven.
_IN_A_ROW = 12
# So often a text is refused before it is asked for no more: it is the text, not the embedder.
_GIVE_UP = 3
# So many refused texts are known by their hash; of more, the first ones are tried anew.
_MOST_REFUSED = 10_000


@dataclass
class Refusals:
    """Texts that the embedder refuses, in this process; kept as hashes, never as text.

    A refusal counts once something else was embedded: until then the embedder may be down.
    """

    _counts: dict[int, int] = field(default_factory=dict[int, int])
    _suspects: set[int] = field(default_factory=set[int])

    def parts(self, texts: Sequence[str]) -> list[list[int]]:
        """List the places of those to ask for: refused before, then the others; not given up."""
        again: list[int] = []
        fresh: list[int] = []
        for place, known in enumerate(map(hash, texts)):
            if self._counts.get(known, 0) < _GIVE_UP:
                seen = known in self._counts or known in self._suspects
                (again if seen else fresh).append(place)
        return [part for part in (again, fresh) if part]

    def learn(self, refused: Iterable[str], embedded: Collection[str]) -> None:
        """Take in what one round of calls showed."""
        if len(self._suspects) < _MOST_REFUSED:
            self._suspects |= set(map(hash, refused))
        if not embedded:
            return
        good = set(map(hash, embedded))
        for known in self._suspects - good:
            self._counts[known] = self._counts.pop(known, 0) + 1
        self._suspects.clear()
        for known in good & self._counts.keys():
            del self._counts[known]
        while len(self._counts) > _MOST_REFUSED:
            del self._counts[next(iter(self._counts))]


async def embed_each(
    embed: Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]],
    refusals: Refusals,
    texts: Sequence[str],
) -> "tuple[list[NDArray[np.float32] | None], EmbedderError | None]":
    """Embed, and give None for a text that the embedder refuses.

    What was said must be stored whatever the embedder makes of it: without a vector it is found
    by its words, and asked for again at the next digest or load, three times in all.

    Args:
        embed: Embeds texts in one call, one row each; may raise EmbedderError.
        refusals: The texts that were refused before; learns from this round.
        texts: What is embedded.

    Returns:
        A vector or None for each text, and the last failure, where there was one.
    """
    out: list[NDArray[np.float32] | None] = [None] * len(texts)
    parts, in_a_row = refusals.parts(texts), 0
    alone: list[str] = []
    failure: EmbedderError | None = None
    while parts and in_a_row < _IN_A_ROW:
        part = parts.pop()
        try:
            found = await embed([texts[place] for place in part])
        except EmbedderError as error:
            failure, in_a_row = error, in_a_row + 1
            if not error.answered:
                break  # it hangs, and would hang for the rest: no text's fault
            alone += [texts[place] for place in part if len(part) == 1]
            middle = len(part) // 2
            parts += [half for half in (part[:middle], part[middle:]) if middle]
            continue
        in_a_row = 0
        for place, vector in zip(part, found, strict=True):
            out[place] = vector
    refusals.learn(alone, [t for t, v in zip(texts, out, strict=True) if is_vector(v)])
    return out, failure


def is_vector(vector: "NDArray[np.float32] | None") -> bool:
    """Tell a vector from the zeros of a record whose text could not be embedded."""
    return vector is not None and bool(vector.any())
