"""Select what a record holds beside its text: names, anchors, metadata, answers of hooks (pure)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from agently_gumem.privacy import Selection
from agently_gumem.records import earliest, union
from agently_gumem.records.placeholders import holds_placeholder

Select = Callable[[str], Selection]
# A longer text is told by itself; a key before it would only cost.
_LONGEST_VALUE = 500


class Cleaner:
    """Selects all texts of one record, and remembers what they come to together."""

    def __init__(self, select: Select) -> None:
        self._select = select
        self._told: list[Selection] = []

    def text(self, text: str) -> str:
        """Give a text as it may be remembered."""
        if not text:
            return text
        self._told.append(self._select(text))
        return self._told[-1].text

    def data(self, value: Any) -> Any:
        """Give nested data as it may be remembered: its texts, keys and whole numbers."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            clean: dict[Any, Any] = {}
            for key, held in cast("Mapping[Any, Any]", value).items():
                own = self._key(key, clean)
                clean[own] = self._under(own, held)
            return clean
        if isinstance(value, list | tuple):
            return [self.data(item) for item in cast("Sequence[Any]", value)]
        told = _digits(value)
        return value if told == "" or (left := self.text(told)) == told else left

    @property
    def selection(self) -> Selection:
        """What all that was selected so far comes to; its text is empty."""
        return Selection(
            "",
            drop=any(s.drop for s in self._told),
            access=tuple(union(*(s.access for s in self._told))),
            lifetime=earliest(s.lifetime for s in self._told),
        )

    def _key(self, key: Any, taken: Mapping[Any, Any]) -> Any:
        if not isinstance(key, str):
            return key
        clean, own, place = self.text(key), "", 1
        while own in taken or not own:
            own, place = (clean if place == 1 else f"{clean} {place}"), place + 1
        return own

    def _under(self, key: Any, value: Any) -> Any:
        """Select a value, and once more with its key before it: "pin: 4711" says what it is."""
        clean = self.data(value)
        told = value if isinstance(value, str) else _digits(value)
        if clean != value or not told or len(told) > _LONGEST_VALUE:
            return clean
        head = f"{key}: "
        said = self.text(head + told)
        if said == head + told:
            return clean
        return said.removeprefix(head)


def clean_names(select: Select, names: Sequence[str]) -> list[str]:
    """Leave out names that hold what is not for memory."""
    kept = ((name, select(name)) for name in names)
    return [n for n, told in kept if told.text == n and not holds_placeholder(n)]


def _digits(value: Any) -> str:
    """Write a whole number as it reads; empty for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    whole = isinstance(value, int) or value.is_integer()
    return str(int(value)) if whole else ""
