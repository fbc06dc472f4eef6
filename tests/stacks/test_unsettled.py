"""A publisher that comes from another broker: what is `delivered` only when the whole tree has answered."""

from resprout.core.contract import Send
from resprout.core.guarantee import STREAMS, ReceiptLevel
from resprout.core.message_fields import Mark
from resprout.core.seen import Seen
from resprout.edge.messages import Turned
from resprout.order.link import Link
from resprout.stacks.resprout.unsettled import (
    ASK_DELAY_US_MAX,
    UnreadSearch,
    UnreadTold,
    UnsettledClient,
    UnsettledClients,
)
from tests.edge.house import House

ORDERED = "ordered"


class Publisher:
    """The client `c` at its next broker, which has seen nothing of it."""

    def __init__(self) -> None:
        self.house = House("c")
        self.unsettled = UnsettledClients(self.house.sessions, Seen())
        self.session = self.house.clients["c"]
        self.unsettled.adopt(self.session, (), 0)

    @property
    def client(self) -> UnsettledClient:
        return self.unsettled.clients["c"]

    def publish(self) -> None:
        """One more, which everybody that it goes to has taken at once."""
        entry = self.house.append(by="c")
        self.session.last[entry.stream] = entry.last
        self.house.sessions.show(entry, self.house.out)

    def answer(self, reached: int, is_read: bool) -> None:
        """Everybody in the tree has answered, and has seen so many of its publications at most."""
        numbers = tuple([reached if stream == ORDERED else 0 for stream in STREAMS])
        self.unsettled.told(self.client, self.client.marks, numbers, is_read)

    def delivered(self) -> list[int]:
        """What it was told since the last time: the last number of each receipt."""
        self.house.sessions.flush(self.house.out)
        sent = [effect.message for effect in self.house.out if isinstance(effect, Send)]
        self.house.out.clear()
        return [told.seq for told in sent if isinstance(told, Turned) and told.receipt is ReceiptLevel.DELIVERED]


def test_until_the_tree_has_answered_everything_may_be_a_repeat() -> None:
    publisher = Publisher()
    publisher.publish()
    assert publisher.delivered() == []
    publisher.answer(reached=0, is_read=True)
    assert publisher.delivered() == [1]


def test_what_others_have_seen_is_delivered_when_nobody_has_it_unread() -> None:
    publisher = Publisher()
    publisher.publish()
    publisher.answer(reached=1, is_read=True)  # nobody was asked about that one yet
    assert publisher.delivered() == []
    publisher.answer(reached=1, is_read=False)
    assert publisher.delivered() == []
    publisher.answer(reached=1, is_read=True)
    assert publisher.delivered() == [1]


def test_what_nobody_else_has_seen_does_not_wait_for_the_rest() -> None:
    publisher = Publisher()
    publisher.publish()
    publisher.answer(reached=1, is_read=False)
    publisher.publish()
    publisher.house.sessions.flush(publisher.house.out)
    told = [effect.message for effect in publisher.house.out if isinstance(effect, Send)]
    assert Turned(ORDERED, ReceiptLevel.DELIVERED, 2, 2) in told


def test_a_number_that_somebody_made_up_is_not_called_delivered() -> None:
    publisher = Publisher()
    publisher.publish()
    publisher.answer(reached=1_000, is_read=True)
    publisher.answer(reached=1_000, is_read=True)
    assert publisher.delivered() == [1]


def test_the_tree_is_asked_less_and_less_often_and_never_twice_at_a_time() -> None:
    publisher = Publisher()
    client, now_us, delays = publisher.client, 0, []
    for _ in range(5):
        assert publisher.unsettled.due(now_us) == [client]
        publisher.unsettled.asked(client, now_us, heartbeat_us=500_000)
        assert publisher.unsettled.due(now_us + 10 * ASK_DELAY_US_MAX) == []
        client.is_asking = False
        delays.append(client.due_us - now_us)
        now_us = client.due_us
    assert delays == [500_000, 1_000_000, 2_000_000, 2_000_000, 2_000_000]


def test_an_entry_that_comes_while_others_are_asked_is_unread() -> None:
    """The broker that had it when the question came here answered after it had sent it on: neither of them had it, and
    the publisher was told `delivered` too early."""
    house = House("r")
    search = UnreadSearch({"n": True}, house.outbound, house.log, Seen())
    answers: list[UnreadTold] = []
    search.ask((Mark("p", ORDERED, 1, 1),), False, answers.append)
    house.give("r", by=None)
    search.told(Link("n", 1, 1, None), UnreadTold(1, True, True, (1,), False))
    assert [answer.is_read for answer in answers] == [False]
