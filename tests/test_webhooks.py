"""Webhooks against a real HTTP server on loopback: what is sent, what is read, what is tried."""

import asyncio
import base64
import json
import logging
import time
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import chromadb
import pytest
from e2e import agent_of
from hookbench import Bench, Receiver
from hypothesis import given
from hypothesis import strategies as st

from agently_gumem import GUMem, Manual
from agently_gumem.errors import ConfigError, HookError, StoreError
from agently_gumem.hooks import Delivery, Whose, verify_signature
from agently_gumem.hooks.deliveries import Deliveries
from agently_gumem.hooks.webhooks import LONGEST_ANSWER, Webhook, signature
from agently_gumem.testing import ScriptedModel

ALICE = Whose("alice", "default", "monday")
FACT = {"id": "fact-1", "content": "User takes size 42", "kind": "fact", "topic": "shoes"}
FACT |= {"labels": [], "entities": [], "confidence": 1.0, "source_message_ids": ["msg-1"]}
SECRET = " ".join(["a", "secret", "of", "the", "application"])


@pytest.fixture
def receive():
    """Make receivers; they are closed when the test is over."""
    made = []

    def make(*answers):
        made.append(Receiver(*answers))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


@contextmanager
def opened():
    """Open a registry and close it."""
    bench = Bench(ALICE, FACT)
    try:
        yield bench
    finally:
        bench.worker.run(bench.hooks.aclose)
        bench.worker.close()


@pytest.fixture
def bench():
    """Give a registry."""
    with opened() as bench:
        yield bench


def test_the_request_holds_the_envelope_and_is_signed(bench, receive):
    """The receiver can check who sent the request, and reads what it is about."""
    receiver = receive({})
    hook_id = bench.hooks.add(
        "fact.before_add", receiver.url, name="audit", secret=SECRET, headers={"X-Tenant": "shop"}
    )
    assert bench.change() == FACT
    ((path, headers, body),) = receiver.requests
    envelope = json.loads(body)
    sent = datetime.fromisoformat(envelope.pop("time"))
    assert abs(datetime.now(timezone.utc) - sent) < timedelta(minutes=1)
    assert envelope == {
        "hook_id": hook_id,
        "hook_name": "audit",
        "resource": "fact",
        "event": "before_add",
        "mode": "sync",
        "context": {"user_id": "alice", "space": "default", "session_id": "monday"},
        "data": FACT,
    }
    assert (path, headers["X-Tenant"], headers["Content-Type"]) == (
        "/hook",
        "shop",
        "application/json",
    )
    assert headers["Accept-Encoding"] == "identity"
    stamp, signed = headers["X-GUMem-Timestamp"], headers["X-GUMem-Signature"]
    assert verify_signature(SECRET, stamp, body, signed)
    assert not verify_signature(SECRET, stamp, body + b" ", signed)
    assert not verify_signature("another", stamp, body, signed)
    assert not verify_signature(SECRET, str(int(stamp) + 1), body, signed)
    assert not verify_signature(SECRET, "1" * 5_000, body, signed)
    assert not verify_signature(SECRET, stamp, body, signed, now=int(stamp) + 301)
    assert verify_signature(SECRET, stamp, body, signed, tolerance=None, now=int(stamp) + 301)


def test_a_signature_is_the_hmac_that_others_compute():
    """`printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key` gives the same."""
    assert signature("key", "1700000000", b'{"a":1}') == (
        "sha256=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03"
    )


@given(st.text(), st.text(), st.binary(), st.text(min_size=1))
def test_what_was_not_signed_is_refused_and_nothing_raises(stamp, signed, body, secret):
    """Whatever somebody sends as timestamp and signature, the check says no, and only that."""
    assert not verify_signature(secret, stamp, body, signed, tolerance=None)


@given(st.text(min_size=1), st.integers(min_value=0, max_value=2**40), st.binary())
def test_what_was_signed_is_accepted_until_it_is_late(secret, stamp, body):
    """A signature holds within the tolerance to both sides and not past it."""
    signed = signature(secret, str(stamp), body)
    for late, good in ((0, True), (300, True), (-300, True), (301, False), (-301, False)):
        assert verify_signature(secret, stamp, body, signed, now=stamp + late) is good


def test_an_unsigned_webhook_sends_no_signature(bench, receive):
    """Without a secret there is a timestamp, and no signature that means nothing."""
    receiver = receive({})
    bench.hooks.add("fact.before_add", receiver.url)
    bench.change()
    headers = receiver.requests[0][1]
    assert "X-GUMem-Timestamp" in headers
    assert "X-GUMem-Signature" not in headers


@pytest.mark.parametrize("answer", [{}, (204, {}, b""), (200, {}, b""), {"drop": False}])
def test_no_change(bench, receive, answer):
    """An empty object, no body at all and `drop: false` leave the record as it is."""
    bench.hooks.add("fact.before_add", receive(answer).url)
    assert bench.change() == FACT
    assert bench.told == []


def test_a_webhook_changes_and_the_next_sees_it(bench, receive):
    """Webhooks are asked in the order in which they were added, each about what it is now."""
    first = receive({"data": {"content": "User takes size 43"}})
    second = receive(lambda got: {"data": {"labels": [got["data"]["content"][-2:]]}})
    bench.hooks.add("fact.before_add", first.url)
    bench.hooks.add("fact.before_add", second.url)
    assert bench.change() == {**FACT, "content": "User takes size 43", "labels": ["43"]}


def test_a_webhook_drops_and_the_next_is_not_asked(bench, receive):
    """What was dropped is shown to nobody else."""
    first, second = receive({"drop": True}), receive({})
    bench.hooks.add("fact.before_add", first.url)
    bench.hooks.add("fact.before_add", second.url)
    assert bench.change() is None
    assert (len(first.requests), len(second.requests)) == (1, 0)


WRONG = {
    "no JSON": (b"<html>", "an answer that is no JSON"),
    "no UTF-8": (b'{"data": "\xff"}', "an answer that is no JSON"),
    "NaN": (b'{"data": {"confidence": NaN}}', "an answer that is no JSON"),
    "too deep": (b"[" * 100_000, "an answer that is no JSON"),
    "a list": ([], "answered with list, where it takes a JSON object"),
    "a text": ("drop", "answered with str, where it takes a JSON object"),
    "an unknown key": ({"dropped": True}, "answered in another form"),
    "drop and data": ({"drop": True, "data": {}}, "answered in another form"),
    "drop as a text": ({"drop": "true"}, "answered in another form"),
    "data as a list": ({"data": []}, "answered in another form"),
    "an instruction": ({"instruction": "x"}, "answered in another form"),
    "an unknown field": ({"data": {"secret words": 1}}, "gave an unknown field"),
    "a forbidden field": ({"data": {"id": "fact-2"}}, "changed id, which stays as it is"),
    "other sources": (
        {"data": {"source_message_ids": []}},
        "changed source_message_ids, which stays as it is",
    ),
    "a wrong type": ({"data": {"content": 7}}, "gave content (string_type)"),
    "true for a number": ({"data": {"confidence": True}}, "gave confidence (float_type)"),
    "out of range": ({"data": {"confidence": 1.5}}, "gave confidence (less_than_equal)"),
    "no such kind": ({"data": {"kind": "gossip"}}, "gave kind (literal_error)"),
    "nothing said": ({"data": {"content": " "}}, "gave content (value_error)"),
    "too long": ({"data": {"content": "x" * 501}}, "gave content (too_long)"),
    "a redirect": ((302, {"Location": "/elsewhere"}, b""), "status 302"),
    "not found": ((404, {}, b""), "status 404"),
    "unauthorised": ((401, {}, {"data": {"content": "x"}}), "status 401"),
    "compressed": (
        (200, {"Content-Encoding": "gzip"}, b"x"),
        "a compressed answer, which was not asked for",
    ),
    "too large": (
        (200, {}, b" " * (LONGEST_ANSWER + 1)),
        f"an answer of more than {LONGEST_ANSWER} bytes",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_answer_is_an_error_and_no_change(bench, receive, what):
    """An answer that is not of the form changes nothing, is not asked for again, and is told."""
    answer, reason = WRONG[what]
    receiver = receive(answer)
    bench.hooks.add("fact.before_add", receiver.url)
    assert bench.change() == FACT
    assert len(receiver.requests) == 1
    assert bench.reasons() == [reason]
    assert [(what, type(error)) for what, error in bench.noted] == [("hook", HookError)]


PASSING = {
    "a server error": (500, {}, b""),
    "too many requests": (429, {"Retry-After": "0"}, b""),
    "too many, by a date": (
        429,
        {"Retry-After": format_datetime(datetime(2020, 1, 1, tzinfo=timezone.utc), usegmt=True)},
        b"",
    ),
    "too many, nonsense": (503, {"Retry-After": "soon"}, b""),
    "hung up": None,
}


@pytest.mark.parametrize("what", PASSING)
def test_what_can_pass_is_tried_again_as_the_same_request(bench, receive, what):
    """The second and third try carry the key of the first, and the last answer counts."""
    bad = PASSING[what]
    receiver = receive(bad, bad, {"data": {"topic": "size"}})
    bench.hooks.add("fact.before_add", receiver.url, secret=SECRET, backoff=0.0)
    assert bench.change() == {**FACT, "topic": "size"}
    keys = {headers["Idempotency-Key"] for _, headers, _ in receiver.requests}
    bodies = {body for _, _, body in receiver.requests}
    assert (len(receiver.requests), len(keys), len(bodies)) == (3, 1, 1)
    assert bench.told == []
    for _, headers, body in receiver.requests:
        assert verify_signature(
            SECRET, headers["X-GUMem-Timestamp"], body, headers["X-GUMem-Signature"]
        )


def test_tries_end(bench, receive):
    """After the retries it has failed; another record is another request with another key."""
    receiver = receive((503, {}, b""), (503, {}, b""), {}, {})
    bench.hooks.add("fact.before_add", receiver.url, retries=1, backoff=0.0)
    assert bench.change() == FACT
    assert bench.reasons() == ["status 503, 2 tries"]
    assert bench.change() == FACT
    keys = [headers["Idempotency-Key"] for _, headers, _ in receiver.requests]
    assert keys[0] == keys[1] != keys[2]


def test_waits_grow(receive):
    """Each wait is between a half and the whole of what doubles with each try."""
    for again in range(5):
        waits = [Webhook("http://a", backoff=0.5).wait(again) for _ in range(50)]
        assert 0.25 * 2**again <= min(waits) <= max(waits) <= 0.5 * 2**again
        assert len(set(waits)) > 1


def test_a_long_retry_after_is_not_waited_for(bench, receive):
    """A receiver that asks for more time than there is has failed at once."""
    receiver = receive((429, {"Retry-After": "86400"}, b""))
    bench.hooks.add("fact.before_add", receiver.url, backoff=0.0)
    assert bench.change() == FACT
    assert len(receiver.requests) == 1
    assert bench.reasons() == ["status 429, one try"]


def test_nobody_listens(bench, receive):
    """Where nothing listens each try fails, and nothing is said to have been sent."""
    receiver = receive()
    url = receiver.url
    receiver.close()
    bench.hooks.add("fact.before_add", url, retries=1, backoff=0.0)
    assert bench.change() == FACT
    assert bench.reasons() == ["ConnectError, 2 tries"]
    assert bench.hooks.deliveries("alice") == []


def test_a_receiver_that_is_too_slow(bench, receive):
    """No answer in time is a failure; that it was sent is kept."""
    receiver = receive({"drop": True})
    receiver.hold.clear()
    bench.hooks.add("fact.before_add", receiver.url, timeout=0.05, retries=1, backoff=0.0)
    assert bench.change() == FACT
    assert len(receiver.requests) == 2
    assert not bench.noted[0][1].answered
    assert [d.count for d in bench.hooks.deliveries("alice")] == [1]


def test_an_answer_that_does_not_end(bench, receive):
    """A body that stops in the middle takes no longer than the timeout."""
    receiver = receive((200, {"Content-Length": "100"}, b'{"drop": true}'))
    bench.hooks.add("fact.before_add", receiver.url, timeout=0.1, retries=0)
    assert bench.change() == FACT
    assert not bench.noted[0][1].answered


def test_a_turn_waits_no_longer_than_the_timeout(bench, receive):
    """At a point for which a turn waits, tries and waits have one timeout together."""
    receiver = receive((503, {}, b""))
    bench.hooks.add("message.before_add", receiver.url, timeout=2, retries=5, backoff=10.0)
    data = {"id": "m", "role": "user", "content": "hi"}
    began = time.monotonic()
    assert bench.change(data, "message.before_add") == data
    assert time.monotonic() - began < 2
    assert len(receiver.requests) == 1


def test_many_records_cost_one_wait(bench, receive):
    """One that gave no answer is not asked again in the same piece of work."""
    receiver = receive((503, {}, b""))
    bench.hooks.add("fact.before_add", receiver.url, retries=0, on_failure="drop")

    async def several():
        began = bench.hooks.round("fact.before_add", lambda *_: None, lambda value: value)
        return [await began.change(FACT, ALICE) for _ in range(5)]

    assert bench.worker.run(several) == [None] * 5
    assert len(receiver.requests) == 1
    assert len(bench.told) == 1


@pytest.mark.parametrize("policy", ["continue", "drop", "stop"])
def test_the_policy_says_what_a_failure_does(bench, receive, policy):
    """As if it were not there, without the record, or not at all."""
    bench.hooks.add("fact.before_add", receive((404, {}, b"")).url, name="bad", on_failure=policy)
    if policy == "stop":
        with pytest.raises(HookError, match=r"hook bad at fact\.before_add: status 404"):
            bench.change()
    else:
        assert bench.change() == (FACT if policy == "continue" else None)
    assert [p["on_failure"] for p in bench.told] == [policy]


def test_secrets_stay_secret(bench, receive, caplog):
    """Credentials and query reach the receiver, and stand in no log, no repr, no list, no error."""
    caplog.set_level(logging.DEBUG)
    receiver = receive({}, (404, {}, b""))
    url = receiver.url.replace("http://", "http://me:pass-word@") + "?token=query-token"
    headers, signs = {"X-Api-Key": "header-key"}, "signing-secret"
    bench.hooks.add("fact.before_add", url, secret=signs, headers=headers)
    bench.change()
    bench.change()
    path, sent, _ = receiver.requests[0]
    assert path == "/hook?token=query-token"
    assert sent["Authorization"] == "Basic " + base64.b64encode(b"me:pass-word").decode()
    assert sent["Host"] == receiver.url.split("/")[2]
    told = [caplog.text, repr(bench.hooks.list()), repr(bench.told), repr(bench.noted)]
    told.append(repr(bench.hooks.deliveries("alice")))
    for secret in ("pass-word", "query-token", "signing-secret", "header-key", "me:"):
        assert not any(secret in text for text in told), secret
    assert "status 404" in caplog.text
    assert bench.hooks.deliveries("alice")[0].url == receiver.url


def test_no_user_text_in_log_or_event(bench, receive, caplog):
    """What the record says, and what a receiver answers, stand in no log at INFO or above."""
    caplog.set_level(logging.INFO)
    bench.hooks.add("fact.before_add", receive({"data": {"diabetes": "diabetes"}}).url)
    bench.change({**FACT, "content": "User has diabetes"})
    assert "gave an unknown field" in caplog.text
    assert "diabetes" not in caplog.text + repr(bench.told)


@pytest.mark.parametrize(
    "url",
    ["ftp://a/b", "file:///etc/passwd", "a/b", "", "http://", "https:///x", "http://a b/", "//a",
     "http://a:99999/", "http://bücher.example/", "http://[::1/"],
)  # fmt: skip
def test_a_url_that_is_none(bench, url):
    """Only http and https with a host are taken; the message holds nothing of the URL."""
    with pytest.raises(ConfigError, match="http:// or https://"):
        bench.hooks.add("fact.before_add", url)


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "x"}, {"x-gumem-signature": "x"}, {"Host": "x"}, {"A": "b\r\nC: d"},
     {"A": "ü"}, {"A": 1}],
)  # fmt: skip
def test_a_header_that_is_none(bench, headers):
    """Headers that each request sets, and what no header can hold, are refused at once."""
    with pytest.raises(ConfigError, match="header"):
        bench.hooks.add("fact.before_add", "http://a/", headers=headers)


def test_an_empty_secret_is_refused(bench):
    """An empty secret would sign with a key that anybody knows."""
    with pytest.raises(ConfigError, match="secret is empty"):
        bench.hooks.add("fact.before_add", "http://a/", secret="")


def test_deliveries_are_counted_by_user_hook_and_resource(bench, receive):
    """What was sent about one user is told of that user and of nobody else."""
    receiver = receive({})
    bench.hooks.add("fact.before_add", receiver.url + "?x=1", name="audit")
    bench.hooks.add("topic.before_add", receiver.url, name="audit")
    bench.change()
    bench.change()
    bench.change({"id": "t", "name": "shoes"}, "topic.before_add")
    bench.change(whose=Whose("bob", "default"))
    told = {d.resource: (d.hook, d.url, d.count) for d in bench.hooks.deliveries("alice")}
    assert told == {"topic": ("audit", receiver.url, 1), "fact": ("audit", receiver.url, 2)}
    (fact,) = [d for d in bench.hooks.deliveries("alice") if d.resource == "fact"]
    assert fact.first < fact.last <= datetime.now(timezone.utc)
    assert bench.hooks.deliveries("alice", "work") == []
    assert [d.count for d in bench.hooks.deliveries("bob")] == [1]


MOMENT = datetime(2025, 5, 1, tzinfo=timezone.utc)


@given(st.lists(st.sampled_from(["send", "save", "load", "restart"]), max_size=30))
def test_no_delivery_is_lost_or_counted_twice(steps):
    """Whatever order sending, saving and loading come in, the count is right while one runs.

    A restart loses what was not saved, and nothing else.
    """
    whose, held, row, sent, saved = ("alice", "default"), Deliveries(), None, 0, 0
    for step, at in zip(steps, (MOMENT + timedelta(minutes=i) for i in range(30)), strict=False):
        if step == "send":
            held.note(whose, "audit", "http://a/", "fact", at)
            sent += 1
        elif step == "save":
            rest = held.unsaved(whose)
            assert bool(rest) == (sent > saved)
            row, saved = (rest[0].model_dump_json(), sent) if rest else (row, saved)
            held.saved(whose, rest)
        elif row is not None:
            held, sent = (Deliveries(), saved) if step == "restart" else (held, sent)
            held.load(whose, row)
        elif step == "restart":
            held, sent = Deliveries(), 0
        assert sum(d.count for d in held.of(whose)) == sent


def test_what_is_sent_while_it_is_saved_is_saved_next():
    """A request that goes out during a write is not taken for one that was written."""
    whose, held = ("alice", "default"), Deliveries()
    held.note(whose, "audit", "http://a/", "fact", MOMENT)
    writing = held.unsaved(whose)
    held.note(whose, "audit", "http://a/", "fact", MOMENT + timedelta(minutes=1))
    held.saved(whose, writing)
    assert [d.count for d in held.unsaved(whose)] == [2]
    held.saved(whose, held.unsaved(whose))
    assert held.unsaved(whose) == []
    held.forget(whose)
    assert held.of(whose) == []
    assert isinstance(writing[0], Delivery)


def test_a_row_that_is_none_is_a_store_error():
    """What something else wrote is told as what it is."""
    for row in ("", "[]", "{}", '{"hook": 1}'):
        with pytest.raises(StoreError):
            Deliveries().load(("alice", "default"), row)


def test_a_webhook_in_a_turn_of_agently(receive):
    """Messages and recalls go to the receiver; what was sent is stored beside what was said."""
    receiver = receive(
        lambda got: (
            {"data": {"content": got["data"]["content"].replace("Bob", "a friend")}}
            if got["resource"] == "message"
            else {"data": {"items": got["data"]["items"][:1]}}
        )
    )
    client = chromadb.EphemeralClient()
    with ScriptedModel("fine") as model, GUMem(client=client, namespace="hooked") as gumem:
        gumem.hooks.add("message.before_add", receiver.url, name="mask", secret=SECRET)
        gumem.hooks.add("recall.before_compose", receiver.url, name="first")
        agent = agent_of(model)
        memory = gumem.attach(agent, user_id="alice", when=Manual())
        agent.activate_session(session_id="monday")
        agent.input("Bob likes green tea.").start()
        agent.input("What does Bob like, green tea or black tea?").start()
        assert [m.content for m in memory.user.messages()] == [
            "a friend likes green tea.",
            "fine",
            "What does a friend like, green tea or black tea?",
            "fine",
        ]
        context = memory.user.query("Who likes green tea?")
        assert len(context.items) == 1
        assert "a friend" in context.items[0].text
        resources = [json.loads(body)["resource"] for _, _, body in receiver.requests]
        # No question of a turn waited for it: all that was found stands in the window.
        assert resources == ["message"] * 4 + ["recall"]
        assert sent_rows(client) == {"mask": (4, receiver.url)}
        memory.user.add_messages({"content": "Nor I."})
        told = {d.hook: (d.count, d.url) for d in gumem.hooks.deliveries("alice")}
        assert gumem.hooks.sent.unsaved(("alice", "default")) == []
        # What a recall sent is stored with the next write.
        assert told == {"mask": (5, receiver.url), "first": (1, receiver.url)} == sent_rows(client)


def sent_rows(client):
    """Read from the store how often each webhook was sent something, and where."""
    found = {}
    for collection in client.list_collections():
        rows = collection.get()
        for fields, document in zip(rows["metadatas"], rows["documents"], strict=True):
            if (fields or {}).get("layer") == "sent":
                row = json.loads(document)
                found[row["hook"]] = (row["count"], row["url"])
    return found


def test_many_requests_at_once(bench, receive):
    """Records of many users are asked about side by side over one client."""
    receiver = receive(lambda got: {"data": {"topic": got["context"]["user_id"]}})
    bench.hooks.add("fact.before_add", receiver.url)

    async def many():
        async def one(name):
            began = bench.hooks.round("fact.before_add", lambda *_: None, lambda value: value)
            return (await began.change(FACT, Whose(name, "default")))["topic"]

        return await asyncio.gather(*(one(f"user{i}") for i in range(30)))

    assert bench.worker.run(many) == [f"user{i}" for i in range(30)]
    assert bench.told == []
