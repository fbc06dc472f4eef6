"""One subscriber that does not read stops nobody else: shares, policies and pauses of the default stack."""

import pytest

from resprout.core.contract import Effect, EndCode
from resprout.core.errors import PeerError
from resprout.core.guarantee import Guarantee
from resprout.edge.broker.session import ENTRY_BYTES, ClientSession
from resprout.edge.client.incoming import Incoming
from resprout.edge.durable_messages import Terms, WhenFull
from resprout.edge.messages import DropsAcknowledged
from resprout.edge.requests import DeliveriesSkipped, PublishRequest, ReceiptWaits, SessionLost, SubscribeRequest
from resprout.overlay.messages import Life
from resprout.stacks.resprout import ResproutOptions, shares
from resprout.stacks.resprout.pauses import READERS_MAX, PausedReader, ReadersPaused
from tests.stacks.test_durable_subscriptions import settle
from tests.stacks.tree import Tree

SHARE = 32 << 10
BODY = 4 << 10
COUNT = 40
OPTIONS = ResproutOptions(subscriber_bytes=SHARE, log_bytes=1 << 20)
HOMES = {"p": "b0", "q": "b0", "healthy": "b2", "others": "b2"}


class SlowTree(Tree):
    """Three brokers in a row, publishers at the first one, and `culprit`, which reads `data/#` or does not."""

    def __init__(self, policy: WhenFull, at: str = "b2", options: ResproutOptions = OPTIONS) -> None:
        super().__init__({"b0": None, "b1": "b0", "b2": "b1"}, {**HOMES, "culprit": at}, seed=3, options=options)
        self.at = at
        self.machines["culprit"].when_full = policy  # type: ignore[attr-defined]
        self.start()
        settle(self)
        self.ask("healthy", SubscribeRequest("data/#"))
        self.ask("others", SubscribeRequest("other/#"))
        self.ask("culprit", SubscribeRequest("data/#"))
        settle(self)

    def stop_reading(self) -> None:
        self.brokers[self.at].parts.sessions.all["culprit"].room = -1 << 60

    def publish(self, client: str, topic: str, count: int = COUNT) -> None:
        for number in range(count):
            body = b"%d " % number + bytes(BODY)
            self.ask(client, PublishRequest(topic, body, guarantee=Guarantee.CAUSAL))
            drain(self)
            if number % 4 == 0:
                self.detector()
        drain(self)

    def got(self, client: str) -> list[int]:
        return [int(message.payload.split(b" ")[0]) for message in self.delivered[client]]


def drain(tree: Tree) -> None:
    """Let everything happen that needs no time."""
    while tree.one():
        pass


def beat(tree: Tree, times: int = 6) -> None:
    """Let everybody give signs of life: pauses are repeated with these, and forgotten without them."""
    for _ in range(times):
        tree.detector()
        drain(tree)


def read_again(tree: Tree, at: str, session: ClientSession) -> None:
    out: list[Effect] = []
    tree.brokers[at].parts.sessions.writable(session, 1 << 40, out)
    tree.perform(at, out)


def test_small_messages_count_against_a_share_with_what_they_take_in_memory() -> None:
    """A bundle of one small message takes about 1 KB and counted 68 bytes, so a share took 16 times what it says."""
    tree = SlowTree(WhenFull.BLOCK)
    tree.stop_reading()
    for _ in range(SHARE // ENTRY_BYTES):
        tree.ask("p", PublishRequest("data/a", b"x", guarantee=Guarantee.CAUSAL))
        drain(tree)
    beat(tree)
    assert tree.brokers["b2"].parts.sessions.all["culprit"].owed_bytes > SHARE
    tree.ask("p", PublishRequest("data/a", b"x", guarantee=Guarantee.CAUSAL))
    beat(tree)
    assert [news for news in tree.news["p"] if isinstance(news, ReceiptWaits)]


@pytest.mark.parametrize("at", ["b0", "b2"])
def test_a_subscriber_that_blocks_holds_publishers_of_its_topics_and_nobody_else(at: str) -> None:
    tree = SlowTree(WhenFull.BLOCK, at)
    tree.stop_reading()
    tree.publish("p", "data/a")
    tree.publish("q", "other/b")
    beat(tree)
    assert tree.got("others") == list(range(COUNT)), "its publisher does not wait"
    parts = tree.brokers["b0"].parts
    assert set(parts.charges.paused_for) == {"p"} and parts.charges.paused_for["p"].broker == at
    assert SHARE // (BODY + ENTRY_BYTES) <= len(tree.got("healthy")) < COUNT
    unread = tree.brokers[at].parts.sessions.all["culprit"].owed_bytes
    assert SHARE < unread < 2 * SHARE
    reason = f"waits for subscriber culprit at {at}, which has too much unread of data/#"
    assert [news.reason for news in tree.news["p"] if isinstance(news, ReceiptWaits)] == [reason]
    assert not [news for news in tree.news["q"] if isinstance(news, ReceiptWaits)]
    status = tree.brokers["b0"].status()
    assert [(one.name, one.reason) for one in status.held] == [("p", reason)]
    assert [(one.name, one.broker, one.filters) for one in status.paused] == [("culprit", at, ("data/#",))]
    assert any(line.startswith(f"publisher p {reason}") for line in status.notices)
    assert any("subscriber culprit has" in line for line in tree.brokers[at].status().notices)
    assert ("b0", "held", f"p {reason}") in tree.notes
    session = tree.brokers[at].parts.sessions.all["culprit"]
    read_again(tree, at, session)
    beat(tree, 20)
    assert tree.got("healthy") == tree.got("culprit") == list(range(COUNT))
    for broker in tree.brokers.values():
        assert not broker.parts.pauses.seen and not broker.parts.charges.paused_for and not broker.status().notices


@pytest.mark.parametrize("at", ["b0", "b2"])
def test_a_subscriber_that_does_not_read_is_cut_off_by_default_and_everybody_else_goes_on(at: str) -> None:
    tree = SlowTree(WhenFull.DISCONNECT, at)
    tree.stop_reading()
    tree.publish("p", "data/a")
    beat(tree, 20)
    lost = [news for news in tree.news["culprit"] if isinstance(news, SessionLost)]
    assert [(news.over, news.code) for news in lost] == [(True, EndCode.SLOW)] and "slow consumer" in lost[0].reason
    assert tree.got("healthy") == list(range(COUNT))
    broker = tree.brokers[at]
    assert broker.status().slow_consumers == 1 and "culprit" not in broker.parts.sessions.all
    assert any(line.startswith("slow consumer cut off") and "culprit" in line for line in broker.status().notices)
    assert [kind for name, kind, text in tree.notes if name == at and "culprit was cut off" in text] == [
        "slow_consumer"
    ]
    for each in tree.brokers.values():
        assert not each.parts.log.entries, "what it was owed is released everywhere"


def test_the_oldest_are_dropped_and_the_client_is_told_which() -> None:
    tree = SlowTree(WhenFull.DROP_OLDEST)
    tree.stop_reading()
    tree.publish("p", "data/a")
    beat(tree)
    assert tree.got("healthy") == list(range(COUNT)), "nobody waits"
    session = tree.brokers["b2"].parts.sessions.all["culprit"]
    read_again(tree, "b2", session)
    beat(tree)
    skipped = [news for news in tree.news["culprit"] if isinstance(news, DeliveriesSkipped)]
    dropped = {seq - 1 for news in skipped for span in news.spans for seq in range(span.first, span.last + 1)}
    assert dropped and dropped.isdisjoint(tree.got("culprit"))
    assert dropped | set(tree.got("culprit")) == set(range(COUNT))
    assert tree.got("culprit")[-1] == COUNT - 1, "the newest ones are kept"
    assert tree.brokers["b2"].status().dropped_messages == len(dropped) == sum(news.count for news in skipped)


def test_dropped_messages_are_kept_until_the_client_acknowledges_the_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker released them with the notice. It crashed before the notice arrived: the client missed the messages, was
    not told, and their publisher was told `delivered`."""
    tree = SlowTree(WhenFull.DROP_OLDEST)
    tree.stop_reading()
    with monkeypatch.context() as patched:
        patched.setattr(Incoming, "skip", lambda *_: None)  # the notices are under way
        tree.publish("p", "data/a")
        beat(tree)
    session = tree.brokers["b2"].parts.sessions.all["culprit"]
    dropped = [item for _, item in session.dropped]
    assert len(dropped) == tree.brokers["b2"].status().dropped_messages > 0
    assert session.owed_bytes <= SHARE < session.owed_bytes + session.dropped_bytes
    assert all(item.undone and item.bundle is not None for item in dropped), "this broker keeps them"
    kept = {entry.last for entry in tree.brokers["b1"].parts.log.entries.values()}
    assert kept >= {item.last for item in dropped}, "and so does its neighbour, which may have to take its place"
    tree.forge("culprit", "b2", DropsAcknowledged(session.drop_notices))
    beat(tree)
    assert not session.dropped and not session.dropped_bytes
    assert not any(item.undone or item.bundle for item in dropped)


def test_a_client_that_acknowledges_no_notice_of_drops_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its dropped messages are kept, so they need a bound."""
    monkeypatch.setattr(shares, "UNDROPPABLE_BYTES", SHARE)
    monkeypatch.setattr(Incoming, "skip", lambda *_: None)
    tree = SlowTree(WhenFull.DROP_OLDEST)
    tree.stop_reading()
    tree.publish("p", "data/a")
    beat(tree)
    assert "culprit" not in tree.brokers["b2"].parts.sessions.all
    assert any(isinstance(news, SessionLost) and "slow consumer" in news.reason for news in tree.news["culprit"])
    assert tree.got("healthy") == list(range(COUNT)), "nobody waits"
    for each in tree.brokers.values():
        assert not each.parts.log.entries, "its messages are released everywhere"


@pytest.mark.parametrize("policy", [WhenFull.BLOCK, WhenFull.SPILL])
def test_a_durable_subscription_that_nobody_consumes_holds_only_publishers_of_its_topics(policy: WhenFull) -> None:
    """One that spills does so when the disk is full."""
    options = ResproutOptions(subscriber_bytes=SHARE, log_bytes=64 << 10, spill_bytes=SHARE)
    tree = SlowTree(WhenFull.DISCONNECT, options=options)
    tree.consume("w", "b2", "archive", Terms("data/#", None, False, policy))
    beat(tree)
    tree.lose("w")
    beat(tree)
    tree.publish("p", "data/a")
    tree.publish("q", "other/b")
    beat(tree)
    assert tree.got("others") == list(range(COUNT))
    assert set(tree.brokers["b0"].parts.charges.paused_for) == {"p"}
    paused = tree.brokers["b0"].status().paused
    assert ("archive", "b2", True) in [(one.name, one.broker, one.durable) for one in paused]


def test_a_pause_ends_with_the_broker_that_announced_it() -> None:
    tree = SlowTree(WhenFull.BLOCK)
    tree.stop_reading()
    tree.publish("p", "data/a")
    beat(tree)
    assert tree.brokers["b0"].parts.pauses.seen
    tree.crash("b2")
    beat(tree, 20)
    tree.run()
    assert not tree.brokers["b0"].parts.pauses.seen and not tree.brokers["b0"].parts.charges.paused_for


def test_an_announcement_that_no_honest_broker_makes_is_its_senders_fault() -> None:
    tree = SlowTree(WhenFull.BLOCK)
    parts = tree.brokers["b0"].parts
    link, home = parts.links["b1"], Life("b2", 1)
    reader = PausedReader("x", ("data/#",), 1, 1)
    for wrong in (
        ReadersPaused(home, 0, (reader,)),
        ReadersPaused(home, 1, (reader,) * (READERS_MAX + 1)),
        ReadersPaused(home, 1, (PausedReader("x", ("a/#/b",), 1, 1),)),
        ReadersPaused(home, 1, (PausedReader("x", ("a",) * 5_000, 1, 1),)),
    ):
        with pytest.raises(PeerError):
            parts.pauses.heard(link, wrong)


def test_publishers_have_fair_shares_of_the_log() -> None:
    """One that floods is held back, and one that has little waiting is not."""
    parts = SlowTree(WhenFull.BLOCK).brokers["b0"].parts
    parts.log.local = {"p": 3 << 19, "q": 1 << 10}
    parts.log.local_bytes = sum(parts.log.local.values())
    parts.pressure.check("q", parts.charges.of("q"), parts.life.out)
    parts.pressure.check("p", parts.charges.of("p"), parts.life.out)
    assert list(parts.pressure.holding) == ["p"]
