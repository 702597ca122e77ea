"""Webhooks: a hook that is a URL, called with a signed POST; and the check for who receives it.

What can pass is tried again: no connection, no answer in time, 429, 5xx. Redirects are not
followed, and of an answer at most a megabyte is read.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from agently_gumem.errors import ConfigError, HookError

if TYPE_CHECKING:  # loaded with the first webhook, not with the package
    import httpx

LONGEST_ANSWER = 2**20
_LONGEST_TIME = 20  # digits: of far more Python makes no number
SIGNATURE, TIMESTAMP, ONCE = "X-GUMem-Signature", "X-GUMem-Timestamp", "Idempotency-Key"
_OURS = frozenset(
    {"host", "content-length", "content-type", "accept-encoding", "transfer-encoding"}
)
_chance = random.SystemRandom()


def signature(secret: str | bytes, timestamp: str, body: bytes) -> str:
    """Sign a body as it is sent at a moment: HMAC-SHA256 of `timestamp.body`."""
    key = secret.encode() if isinstance(secret, str) else secret
    return "sha256=" + hmac.new(key, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def verify_signature(
    secret: str | bytes,
    timestamp: str | int,
    body: bytes,
    signature_header: str,
    tolerance: float | None = 300,
    *,
    now: float | None = None,
) -> bool:
    """Tell, in constant time, whether a request comes from who knows the secret, and recently.

    Args:
        secret: As given to `hooks.add`.
        timestamp: The header `X-GUMem-Timestamp`.
        body: The raw body, before anything parses it.
        signature_header: The header `X-GUMem-Signature`.
        tolerance: Seconds that the clocks may differ and a request may take; None: any.
        now: The receiver's time; None is the present one.
    """
    told = str(timestamp)
    if not (told.isascii() and told.isdigit() and len(told) <= _LONGEST_TIME):
        return False
    good = hmac.compare_digest(
        signature(secret, told, body).encode(), signature_header.encode("utf-8", "replace")
    )
    late = abs((time.time() if now is None else now) - int(told))
    return good and (tolerance is None or late <= tolerance)


@dataclass(frozen=True)
class Webhook:
    """Where a hook is posted to, and how.

    Raises:
        ConfigError: The URL or a header is wrong, or the secret is empty.
    """

    url: str = field(repr=False)
    secret: str | bytes | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    retries: int = 2
    backoff: float = 0.5
    """Seconds before the second try, doubled for each after it, the half of it by chance."""

    def __post_init__(self) -> None:
        _check_url(self.url)
        if self.secret is not None and not self.secret:
            raise ConfigError("secret is empty: give None to send without a signature")
        _check_headers(self.headers)

    @property
    def shown(self) -> str:
        """The URL as it may be shown: without credentials, query and fragment."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{self.host}{parts.path}"

    @property
    def host(self) -> str:
        """Host and port."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
        return host if parts.port is None else f"{host}:{parts.port}"

    @property
    def target(self) -> bytes:
        """Path and query as they stand in the request line."""
        parts = urlsplit(self.url)
        told = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return quote(told, safe="%/:?#[]@!$&'()*+,;=~").encode()

    def wait(self, again: int) -> float:
        """Return the seconds before a further try, the first of which is 0."""
        return self.backoff * 2**again * _chance.uniform(0.5, 1.0)

    def request_headers(self, body: bytes, once: str, moment: float) -> dict[str, str]:
        """Return the headers of one try."""
        timestamp = str(int(moment))
        headers = {
            **self._authorization(),
            **self.headers,
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",  # what is compressed can be of any size
            "User-Agent": "agently-gumem",
            ONCE: once,
            TIMESTAMP: timestamp,
        }
        if self.secret is not None:
            headers[SIGNATURE] = signature(self.secret, timestamp, body)
        return headers

    def _authorization(self) -> dict[str, str]:
        """Return the credentials of the URL as a header, where it has some."""
        parts = urlsplit(self.url)
        if parts.username is None:
            return {}
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine or not url.isascii() or any(c.isspace() for c in url):
        raise ConfigError("a webhook takes an http:// or https:// URL with a host, in ASCII")


def _check_headers(headers: Mapping[str, str]) -> None:
    taken = {SIGNATURE.lower(), TIMESTAMP.lower(), ONCE.lower(), "user-agent", *_OURS}
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigError("headers takes texts: {name: value}")
        if name.lower() in taken:
            raise ConfigError(f"the header {name!r} is set by each request: leave it out")
        if not name.isascii() or not value.isascii() or not (name + value).isprintable():
            raise ConfigError(f"the header {name!r} holds what no header can: ASCII alone")


def new_client() -> "httpx.AsyncClient":
    """Open a client for webhooks; loading certificates takes a moment, so not on a loop."""
    import httpx

    return httpx.AsyncClient(follow_redirects=False, limits=httpx.Limits(max_connections=64))


async def deliver(
    client: "httpx.AsyncClient",
    hook: Webhook,
    envelope: Mapping[str, Any],
    *,
    timeout: float,
    within: float,
    on_sent: Callable[[], None],
) -> Any:
    """Post an envelope and return the JSON of the answer; None where there is none.

    Args:
        client: Of `new_client`.
        hook: Where to, and how often.
        envelope: Plain data.
        timeout: Seconds of one try.
        within: Seconds of all tries and the waits between them.
        on_sent: Called once, when the receiver may have got it.

    Raises:
        HookError: The answer is an error, a redirect, too long, or no JSON; or there was none.
    """
    body = json.dumps(envelope, ensure_ascii=False).encode("utf-8", "replace")
    post = _Post(client, hook, body, uuid.uuid4().hex, on_sent)
    deadline = time.monotonic() + within
    outcome = await post.once(min(timeout, within))
    again = 0
    while isinstance(outcome, _Passing):
        wait = max(hook.wait(again), outcome.wait)
        if again == hook.retries or time.monotonic() + wait >= deadline:
            tries = f"{again + 1} tries" if again else "one try"
            raise HookError(f"{outcome.reason}, {tries}", answered=False)
        await asyncio.sleep(wait)
        again += 1
        outcome = await post.once(min(timeout, deadline - time.monotonic()))
    return _read(outcome)


@dataclass(frozen=True)
class _Passing:
    """Why a try was in vain, where the next one may not be."""

    reason: str
    wait: float = 0.0


@dataclass
class _Post:
    client: "httpx.AsyncClient"
    hook: Webhook
    body: bytes
    name: str
    on_sent: Callable[[], None]
    sent: bool = False

    async def once(self, timeout: float) -> "bytes | _Passing":
        """Try once; raises what no other try can mend."""
        import httpx

        try:
            # Each step has this time at most, and all of them together as well: a receiver that
            # sends a byte a second would otherwise hold on to a turn.
            return await asyncio.wait_for(self._try(timeout), timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return _Passing(type(error).__name__)  # it never left
        except (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError) as error:
            self._note_sent()
            return _Passing(type(error).__name__)
        except asyncio.TimeoutError:
            self._note_sent()
            return _Passing(f"no answer within {timeout:.3g} s")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise HookError(type(error).__name__) from None

    async def _try(self, timeout: float) -> "bytes | _Passing":
        headers = self.hook.request_headers(self.body, self.name, time.time())
        # httpx logs the URL of each request: what may not be shown goes in beside it.
        async with self.client.stream(
            "POST",
            self.hook.shown,
            content=self.body,
            headers=headers,
            timeout=timeout,
            extensions={"target": self.hook.target},
        ) as response:
            self._note_sent()
            status = response.status_code
            if status == 429 or status >= 500:
                return _Passing(f"status {status}", _retry_after(response.headers))
            if not 200 <= status < 300:
                raise HookError(f"status {status}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise HookError("a compressed answer, which was not asked for")
            return await _bounded(response)

    def _note_sent(self) -> None:
        if not self.sent:
            self.sent = True
            self.on_sent()


async def _bounded(response: "httpx.Response") -> bytes:
    parts, size = list[bytes](), 0
    async for part in response.aiter_raw():
        parts.append(part)
        size += len(part)
        if size > LONGEST_ANSWER:
            raise HookError(f"an answer of more than {LONGEST_ANSWER} bytes")
    return b"".join(parts)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Read how many seconds the receiver asks for; 0 where it asks for none."""
    told = headers.get("retry-after", "").strip()
    if told.isascii() and told.isdigit():
        return float(told[:9])
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def _read(raw: bytes) -> Any:
    """Read the JSON of an answer.

    Raises:
        HookError: It is none.
    """
    if not raw.strip():
        return None
    try:
        return json.loads(raw.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise HookError("an answer that is no JSON") from None


def _no_number(name: str) -> Any:
    raise ValueError(name)
