"""The client for code that blocks."""

import concurrent.futures
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import resprout
from resprout import sync
from resprout.testing import Broker
from tests.patience import PATIENCE_S


@pytest.fixture
def client(resprout_broker: Broker) -> Iterator[sync.Client]:
    with sync.connect(resprout_broker.address, name="c") as client:
        yield client


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("resprout")]


def test_publish_subscribe_and_receipts(client: sync.Client) -> None:
    inbox = client.subscribe("t/+", where="n > 1", timeout=PATIENCE_S)
    client.publish("t/1", b"no", attributes={"n": 1})
    receipt = client.publish("t/1", b"yes", guarantee="fifo", keys=["k"], attributes={"n": 2})
    receipt.accepted(timeout=PATIENCE_S)
    receipt.safe(timeout=PATIENCE_S)
    assert inbox.next(timeout=PATIENCE_S).payload == b"yes"
    receipt.delivered(timeout=PATIENCE_S)
    assert (receipt.state, receipt.seq, repr(receipt)) == ("delivered", 2, "<receipt ordered:2 delivered>")
    assert (client.name, client.stack) == ("c", "resprout")


def test_a_timeout_loses_nothing(client: sync.Client) -> None:
    inbox = client.subscribe("t")
    for _ in range(3):
        with pytest.raises(TimeoutError):
            inbox.next(timeout=0.01)
    receipt = client.publish("t", b"x")
    receipt.safe(timeout=PATIENCE_S)
    with pytest.raises(TimeoutError):
        receipt.delivered(timeout=0.05)
    assert inbox.next(timeout=PATIENCE_S).payload == b"x"
    receipt.delivered(timeout=PATIENCE_S)
    with pytest.raises(TimeoutError):
        inbox.next(timeout=0)


def test_an_iterator_ends_with_its_subscription_and_with_the_client(client: sync.Client) -> None:
    first, second = client.subscribe("t"), client.subscribe("u")
    for number in range(3):
        client.publish("t", b"%d" % number)
        client.publish("u", b"%d" % number).safe(timeout=PATIENCE_S)
    assert [first.next(timeout=PATIENCE_S).payload for _ in range(2)] == [b"0", b"1"]
    while len(first) < 1 or len(second) < 3:
        time.sleep(0.001)
    client.unsubscribe(first, timeout=PATIENCE_S)
    assert [message.payload for message in first] == [b"2"]
    with pytest.raises(resprout.ClosedError, match="the subscription is over"):
        first.next()
    client.close()
    assert [message.payload for message in second] == [b"0", b"1", b"2"], "what had come is still handed out"


def test_closing_wakes_whoever_waits_and_ends_the_thread(resprout_broker: Broker) -> None:
    before = threads()
    client = sync.connect(resprout_broker.address)
    inbox = client.subscribe("t")
    ended: list[list[resprout.Message]] = []
    readers = [threading.Thread(target=lambda: ended.append(list(inbox))) for _ in range(3)]
    for reader in readers:
        reader.start()
    closers = [threading.Thread(target=client.close) for _ in range(3)]
    for closer in closers:
        closer.start()
    for thread in (*readers, *closers):
        thread.join(10)
        assert not thread.is_alive()
    assert ended == [[], [], []]
    client.close()
    assert threads() == before
    for call in (lambda: client.publish("t", b""), lambda: client.subscribe("u")):
        with pytest.raises(resprout.ClosedError, match="the client is closed"):
            call()


def test_many_threads_share_a_client_and_an_inbox(client: sync.Client) -> None:
    inbox = client.subscribe("t/#")
    taken: list[bytes] = []

    def publish(number: int) -> None:
        for count in range(50):
            client.publish(f"t/{number}", b"%d:%d" % (number, count))

    def take() -> None:
        taken.extend([inbox.next(timeout=PATIENCE_S).payload for _ in range(50)])

    work = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    work += [threading.Thread(target=take) for _ in range(4)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join(30)
    assert sorted(taken) == sorted(b"%d:%d" % (number, count) for number in range(4) for count in range(50))


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupted_wait_loses_nothing(client: sync.Client, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """Ctrl-C before the message came, or when it was already on its way between the threads."""
    inbox = client.subscribe("t")
    if late:
        client.publish("t", b"x").safe(timeout=PATIENCE_S)

    class Interrupted(concurrent.futures.Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            if late:
                super().result(PATIENCE_S)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(concurrent.futures, "Future", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            inbox.next()
    if not late:
        client.publish("t", b"x")
    assert inbox.next(timeout=PATIENCE_S).payload == b"x"
    with pytest.raises(TimeoutError):
        inbox.next(timeout=0.01)


def test_usage_errors_come_where_the_call_is(client: sync.Client) -> None:
    with pytest.raises(resprout.UsageError, match="holds a wildcard"):
        client.publish("t/#", b"")
    with pytest.raises(resprout.UsageError, match="unknown guarantee 'exactly-once'"):
        client.publish("t", b"", guarantee="exactly-once")  # type: ignore[arg-type]
    with pytest.raises(resprout.UsageError):
        client.subscribe("t", where="x >")


def test_no_thread_is_left_when_no_session_could_be_made() -> None:
    before = threads()
    with pytest.raises(resprout.ConnectError, match="connection refused"):
        sync.connect("127.0.0.1:1")
    with pytest.raises(resprout.UsageError, match="the port must be a number"):
        sync.connect("127.0.0.1:x")
    assert threads() == before


def test_several_subscriptions_feed_one_inbox_which_is_read_in_batches(client: sync.Client) -> None:
    inbox = client.subscribe("t")
    assert client.subscribe("u", into=inbox) is inbox
    assert inbox.next_nowait() is None and inbox.failure is None
    for number in range(4):
        client.publish("tu"[number % 2], b"%d" % number).safe(timeout=PATIENCE_S)
    while len(inbox) < 4:
        time.sleep(0.001)
    first = inbox.next_nowait()
    assert first is not None and first.payload == b"0"
    batches = inbox.batches()
    assert [message.payload for message in next(batches)] == [b"1", b"2", b"3"]
    client.publish("t", b"last").safe(timeout=PATIENCE_S)
    client.unsubscribe(inbox, timeout=PATIENCE_S)
    assert [[message.payload for message in batch] for batch in batches] == [[b"last"]]


class Order(msgspec.Struct):
    article: str
    count: int = 1


def test_requests_are_served_by_threads_and_have_types(client: sync.Client) -> None:
    with pytest.raises(resprout.NoRespondersError):
        client.request("price", b"?")
    with (
        client.serve("price", type=Order, timeout=PATIENCE_S) as service,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):

        def serve() -> list[str]:
            served = []
            for request in service:
                served.append(request.topic)
                if request.value.article == "gold":
                    request.fail("none is left")
                    return served
                request.reply(Order("flour", 2 * request.value.count))
            return served

        serving = pool.submit(serve)
        assert client.request("price", Order("bread", 4), type=Order).value == Order("flour", 8)
        with pytest.raises(resprout.RequestFailedError, match="none is left"):
            client.request("price", Order("gold"), timeout=PATIENCE_S)
        assert serving.result(PATIENCE_S) == ["price", "price"]
        with pytest.raises(TimeoutError):
            service.next(timeout=0.01)
        with pytest.raises(resprout.NoReplyError):
            client.request("price", b"nobody takes it", timeout=0.05)


def test_values_are_read_by_code_that_blocks(client: sync.Client) -> None:
    inbox = client.subscribe("orders", type=Order)
    client.publish("orders", Order("bread"))
    client.publish("orders", b"?")
    assert inbox.next(timeout=PATIENCE_S).value == Order("bread")
    with pytest.raises(resprout.MistypedPayloadError):
        _ = inbox.next(timeout=PATIENCE_S).value


def test_a_bundle_is_published_as_one_and_a_durable_subscription_is_ended(client: sync.Client) -> None:
    with pytest.raises(resprout.SubscribeError):
        client.end_subscription("nobody-has-it", timeout=PATIENCE_S)
    inbox = client.subscribe("t")
    client.publish_bundle("t", [b"1", b"2", b"3"]).safe(timeout=PATIENCE_S)
    assert [inbox.next(timeout=PATIENCE_S).payload for _ in range(3)] == [b"1", b"2", b"3"]


INTERNAL = {"add_bundle", "add_publication", "belongs_to", "check_ack", "check_publication", "close_after_fork"} | {
    "add_handled", "ask_values", "drop_retained",
    "end", "hear", "inbox", "put", "ready", "request_of", "run_on", "wait_for_room", "over_for_all",
}  # fmt: skip
"""Parts of the clients for each other, not for programs."""
WITHOUT_WAIT = {"ack", "in_progress", "kv", "nack", "next_nowait", "term"}
PAIRS = {
    resprout.Client: sync.Client,
    resprout.Inbox: sync.Inbox,
    resprout.DurableInbox: sync.DurableInbox,
    resprout.TypedInbox: sync.DurableInbox,
    resprout.Receipt: sync.Receipt,
    resprout.ServedRequest: sync.Request,
    resprout.Service: sync.Service,
}


def _calls(kind: type) -> dict[str, Callable[..., object]]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: call for name, call in found if not name.startswith("_") and name not in INTERNAL}


def _arguments(call: Callable[..., object]) -> list[tuple[str, object, object]]:
    """Without `timeout`, which only calls that block need."""
    found = inspect.signature(call).parameters.values()
    return [(one.name, one.kind, one.default) for one in found if one.name != "timeout"]


@pytest.mark.parametrize("kind", PAIRS, ids=lambda kind: kind.__name__)
def test_both_clients_have_the_same_calls_with_the_same_arguments(kind: type) -> None:
    both = [_calls(kind), _calls(PAIRS[kind])]
    assert both[0].keys() == both[1].keys()
    for name, call in both[0].items():
        blocking = both[1][name]
        assert _arguments(call) == _arguments(blocking), name
        limit = inspect.signature(blocking).parameters.get("timeout")
        assert (limit is None) == (name in WITHOUT_WAIT), f"{name} blocks, so it has a timeout"
        own = inspect.signature(call).parameters.get("timeout")
        assert own is None or (limit is not None and own.default == limit.default), name


def test_both_ways_to_connect_have_the_same_arguments() -> None:
    asynchronous, blocking = [inspect.signature(call).parameters for call in (resprout.connect, sync.connect)]
    assert [(one.name, one.kind, one.default) for one in asynchronous.values()] == [
        (one.name, one.kind, one.default) for one in blocking.values()
    ]


@pytest.mark.parametrize("kind", PAIRS, ids=lambda kind: kind.__name__)
def test_both_clients_have_the_same_properties(kind: type) -> None:
    def properties(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, lambda one: isinstance(one, property))} - INTERNAL

    only_asynchronous = {"replaying"} if kind is resprout.DurableInbox else set()
    assert properties(kind) - only_asynchronous <= properties(PAIRS[kind])
