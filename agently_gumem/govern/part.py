"""What every part of a user's memory shares: whose it is, and where its methods run."""

from contextlib import AbstractAsyncContextManager

from agently_gumem.engine import Engine, checked_name
from agently_gumem.scope import Scope
from agently_gumem.worker import Worker


class UserPart:
    """One user in one space."""

    def __init__(self, engine: Engine, user_id: str, space: str) -> None:
        self._engine = engine
        self.user_id = checked_name(user_id, "user_id")
        self.space = checked_name(space, "space")

    @property
    def worker(self) -> Worker:
        """Where its methods run."""
        return self._engine.worker

    def _use(self) -> AbstractAsyncContextManager[Scope]:
        """Hold the user's scope, loaded."""
        return self._engine.use(self.user_id, self.space)
