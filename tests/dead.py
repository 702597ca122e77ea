"""A store that is down while it is told to be."""


class Dead:
    """A real client of Chroma whose calls fail while it is told to."""

    def __init__(self, client):
        self._client, self.failing = client, False

    def __getattr__(self, name):
        made = getattr(self._client, name)
        if name not in ("get_collection", "create_collection", "get_or_create_collection"):
            return made
        return lambda *args, **kwargs: DeadCollection(self, made(*args, **kwargs))


class DeadCollection:
    """One of its collections."""

    def __init__(self, owner, collection):
        self._owner, self._collection = owner, collection

    def __getattr__(self, name):
        if self._owner.failing:
            raise ConnectionError("no store")
        return getattr(self._collection, name)
