"""What holds a text that must go: whole words, Chinese anywhere, or a pattern (pure)."""

import json
import re
from collections.abc import Callable

from agently_gumem.errors import ConfigError
from agently_gumem.records import Fact, Message, Summary, Topic
from agently_gumem.text import CJK, fold

# A shorter text stands by chance in most of what is said.
_SHORTEST, _SHORTEST_CJK = 3, 2


def holder(wanted: str | re.Pattern[str]) -> Callable[[str], bool]:
    """Return what tells whether a text holds another: as whole words, whatever its case.

    A text with Chinese is found anywhere, since words are not divided there. A pattern is
    searched for in the text as it stands.

    Raises:
        ConfigError: It is no text or pattern, or so short that it stands everywhere.
    """
    if isinstance(wanted, re.Pattern):
        if not isinstance(wanted.pattern, str) or wanted.search("") is not None:
            raise ConfigError(
                "matching= takes a pattern of texts that does not match the empty one"
            )
        return lambda text: wanted.search(text) is not None
    if not isinstance(wanted, str):
        raise ConfigError(
            f"matching= takes a text or a compiled pattern, not {type(wanted).__name__}"
        )
    folded = fold(wanted)
    chinese = CJK.search(folded) is not None
    least = _SHORTEST_CJK if chinese else _SHORTEST
    if len(folded) < least:
        raise ConfigError(f"matching= takes at least {least} characters, not {len(folded)}")
    if chinese:
        return lambda text: folded in fold(text)
    before = r"(?<!\w)" if folded[0].isalnum() else ""
    after = r"(?!\w)" if folded[-1].isalnum() else ""
    whole = re.compile(f"{before}{re.escape(folded)}{after}")
    return lambda text: whole.search(fold(text)) is not None


def texts_of(record: Message | Fact | Summary | Topic) -> list[str]:
    """List all texts of a record that somebody said or a model wrote."""
    if isinstance(record, Topic):
        return [record.name, *record.aliases, record.description, *record.labels]
    texts = [record.content, *_plain(record.anchors)]
    if isinstance(record, Message):
        return [*texts, record.speaker, record.page, *_plain(record.metadata)]
    texts += [record.topic, *record.labels, *record.entities]
    texts += [change.reason for change in record.changes]
    if isinstance(record, Summary):
        return [*texts, *_plain(record.evidence)]
    return [*texts, record.subject]


def _plain(value: object) -> list[str]:
    """List the texts in nested data, keys as well."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict | list | tuple):
        return [json.dumps(value, ensure_ascii=False, default=str)]
    return []
