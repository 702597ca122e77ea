"""Hooks asked on a registry alone, without a memory around them."""

from agently_gumem.hooks import Hooks
from agently_gumem.worker import Worker


class Bench:
    """A registry on a worker of its own, with what it told and noted.

    `whose` and `data` are what it is asked about where a test says nothing else.
    """

    def __init__(self, whose, data):
        self.worker = Worker()
        self.whose, self.data = whose, data
        self.told, self.noted = [], []
        self.hooks = Hooks(
            self.worker, lambda kind, payload, warning=False: self.told.append(payload)
        )

    def ask(self, how, data, point, clean=lambda value: value, whose=None):
        """Ask the hooks of a point once."""

        async def work():
            note = lambda what, error: self.noted.append((what, error))  # noqa: E731
            return await getattr(self.hooks.round(point, note, clean), how)(
                data, whose or self.whose
            )

        return self.worker.run(work)

    def change(self, data=None, point="fact.before_add", **more):
        """Ask for changes of one record."""
        return self.ask("change", data or self.data, point, **more)

    def reasons(self):
        """Why hooks failed, as it was emitted."""
        return [payload["reason"] for payload in self.told]
