"""Correct a Fact, by an operator."""

from agently_gumem.govern.part import UserPart


class Correcting(UserPart):
    """The part of a user's memory that puts right."""
