"""Ids: computed with the store's own key, so that what is repeated lands on itself."""

import hashlib
import hmac

_LENGTH = 24


class Ids:
    """Makes ids from text that can't be guessed back to it without the store's key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, kind: str, *parts: str) -> str:
        """Return the id of `parts`; each part counts with its length, so that none runs over."""
        mac = hmac.new(self._key, kind.encode(), hashlib.sha256)
        for part in parts:
            raw = part.encode("utf-8", "surrogatepass")
            mac.update(len(raw).to_bytes(8, "big"))
            mac.update(raw)
        return f"{kind}-{mac.hexdigest()[:_LENGTH]}"
