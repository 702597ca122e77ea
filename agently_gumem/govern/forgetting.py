"""Forget, and allow again what was forgotten."""

from agently_gumem.govern.part import UserPart


class Forgetting(UserPart):
    """The part of a user's memory that lets go."""
