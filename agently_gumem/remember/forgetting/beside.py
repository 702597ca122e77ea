"""What stands beside the text of a record that stays: names, labels, reasons of changes (pure)."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from agently_gumem.records import Change, Fact, Message, Summary
from agently_gumem.remember.forgetting.derived import Signs
from agently_gumem.remember.forgetting.plan import Holds


@dataclass(frozen=True)
class Clean:
    """Takes out of what stays what is said beside its text: names, labels, reasons."""

    close: Signs
    """Tells what was forgotten, also in a small word of it."""
    gone: AbstractSet[str]
    """Messages that go."""
    holds: Holds | None

    def fact(self, fact: Fact) -> Fact:
        """Clean a Fact."""
        holds = self.holds
        anchors = fact.anchors.items()
        fields = {
            "labels": self._names(fact.labels),
            "entities": self._names(fact.entities),
            "anchors": {k: v for k, v in anchors if holds is None or not holds(f"{k} {v}")},
            "changes": self._changes(fact.changes),
        }
        return fact.model_copy(update=fields)

    def summary(self, summary: Summary) -> Summary:
        """Clean a Summary; its evidence loses what names a message that goes."""
        fields = {
            "labels": self._names(summary.labels),
            "entities": self._names(summary.entities),
            "evidence": [e for e in summary.evidence if e.get("id") not in self.gone],
            "changes": self._changes(summary.changes),
        }
        return summary.model_copy(update=fields)

    def correction(self, message: Message) -> Message:
        """Clean the reason of an operator's correction; what it says is a source of its own."""
        why = str(message.metadata.get("reason", ""))
        if message.event_type != "correction" or not self.close.says(why):
            return message
        return message.model_copy(update={"metadata": {**message.metadata, "reason": ""}})

    def _names(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if not self.close.says(name)]

    def _changes(self, changes: Iterable[Change]) -> list[Change]:
        return [c.model_copy(update={"reason": ""}) if self._tells(c) else c for c in changes]

    def _tells(self, change: Change) -> bool:
        """Tell whether a reason says it, or was given with a message that goes."""
        return bool(change.reason) and (
            self.close.says(change.reason) or not self.gone.isdisjoint(change.by)
        )
