"""Export a user's memory, and import one."""

from agently_gumem.govern.part import UserPart


class Moving(UserPart):
    """The part of a user's memory that comes and goes as a file."""
