"""What a developer may set, with the defaults and their reasons."""

from typing import Any, Literal

from pydantic import Field

from agently_gumem.records import Moment, Record


class RecallConfig(Record):
    """How one recall is composed; a plain dict of the same fields is taken as well."""

    max_tokens: int = Field(default=800, ge=0)
    """Bound of `formatted_context`, memo included."""
    memo_tokens: int = Field(default=300, ge=0)
    """Bound of the memo, of those."""
    message_recent_limit: int = Field(default=4, ge=0)
    """Messages in `short_term_context`."""
    message_top_k: int = Field(default=20, ge=0)
    fact_top_k: int = Field(default=30, ge=0)
    summary_top_k: int = Field(default=5, ge=0)
    topic_top_k: int = Field(default=5, ge=0)
    """Topics whose Facts and Summaries are raised."""
    floor: float | None = Field(default=None, ge=0.0)
    """Evidence below which nothing is recalled; None takes the calibrated one."""
    labels: list[str] = Field(default_factory=list)
    """Only Facts and Summaries that carry one of these."""
    metadata_filters: dict[str, Any] = Field(default_factory=dict)
    """Only messages whose metadata holds these values, and what rests on them."""
    layers: tuple[Literal["summary", "fact", "turn"], ...] = ("summary", "fact", "turn")
    read_spaces: tuple[str, ...] = ()
    """Spaces of the same user that are read beside its own."""
    access: tuple[str, ...] = ()
    """Labels that this reader may see: what is kept under others is not recalled."""
    archived: bool = False
    """Whether archived Summaries are recalled as well."""
    as_of: Moment | None = None
    """Recall what held at that time."""
    now: Moment | None = None
    """The moment of the question; None is the present one."""


class Limits(Record):
    """Bounds of what a memory may cost."""

    digest_tokens: int = Field(default=6_000, ge=200)
    """Tokens of messages in one digest request; the rest waits for the next."""
    digest_messages: int = Field(default=500, ge=2)
    candidates: int = Field(default=20, ge=0)
    """Known Facts that a digest request shows at most, the nearest within 320 tokens."""
    topics: int = Field(default=20, ge=0)
    """Topic names that a digest request shows at most, the nearest within 75 tokens."""
    facts_per_message: int = Field(default=12, ge=1)
    """More Facts than this from one message are not kept: a model that runs wild."""
    behaviour_after: int = Field(default=3, ge=2)
    """Distinct events of the same that make a habit, also where the model says that it is one."""
    summary_after: int = Field(default=4, ge=1)
    """New Facts of a Topic that are worth a new Summary."""
    concurrent: int | None = Field(default=64, ge=1)
    """Memory requests under way at once; None: no limit. Each holds a thread and a connection."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Memory requests in any 60 seconds, of all users of this process together."""
    tokens_per_user_day: int | None = Field(default=None, ge=1)
    """Tokens of one user's memory requests in a day of UTC, in this process."""
    request_timeout: float = Field(default=60.0, gt=0)
    """Seconds that one memory request may take."""
    answer_tokens: int | None = Field(default=None, ge=64)
    """`max_tokens` sent with a memory request; None sends none."""
    max_attempts: int = Field(default=5, ge=1)
    """Digests that the model answered without success after which a message is `failed`."""
    turn_seconds: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds without a sign of life after which a process loses its turn at a user's digest."""
    store_timeout: float = Field(default=30.0, gt=0, le=86_400)
    """Seconds that one call to a Chroma server may take."""
    index_bytes: int = Field(default=256 * 2**20, ge=0)
    """Memory for the indexes of all users together."""
    index_records: int = Field(default=50_000, ge=100)
    """Records of one user in its index; past it the oldest processed turns are left out."""
