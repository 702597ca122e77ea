"""Correct a Fact, by an operator."""

from agently_gumem.errors import ConfigError
from agently_gumem.govern.part import UserPart
from agently_gumem.records import Fact
from agently_gumem.worker import awaitable, blocking


class Correcting(UserPart):
    """The part of a user's memory that puts right."""

    async def _correct(
        self, fact_id: str, new_content: str, *, reason: str = "", by: str = "operator"
    ) -> Fact:
        """Put right what a Fact says; from then on only the new value is recalled.

        It is kept as a message of its own, which the new Fact cites. The old Fact is superseded
        and stays answerable; Summaries that told it are retired, and the memo loses what rested on
        it until the next digest writes it anew. No model is asked, and no digest waited for: one
        that is under way takes its messages anew.

        Args:
            fact_id: The Fact that is wrong; an active one.
            new_content: What is right: one sentence that is understandable alone.
            reason: Why, for the history.
            by: Who says so, for the history.

        Returns:
            The Fact that holds now.

        Raises:
            NotFound: This user has no such Fact.
            ConfigError: The Fact is not active, says this already, or the text can't be a Fact.
            StoreError: Nothing was written.
        """
        # The stages load half of the package's patterns, and a turn needs none of them.
        from agently_gumem.remember.correct import correct

        given = {"fact_id": fact_id, "new_content": new_content, "reason": reason, "by": by}
        for name, value in given.items():
            if not isinstance(value, str):
                raise ConfigError(f"correct: {name} takes a text, not {value!r}")
        if not by.strip():
            raise ConfigError("correct: by must name who corrects")
        async with self._use() as scope:
            return await correct(scope, fact_id, new_content, reason, by.strip())

    correct, async_correct = blocking(_correct), awaitable(_correct)
