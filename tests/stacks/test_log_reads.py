"""Reads of logs at a broker: few pages at a time for one identity, charged for searching, with room for others."""

from types import SimpleNamespace
from typing import Any, cast

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import ProtocolMessage, Send
from resprout.core.guarantee import Guarantee
from resprout.edge.broker.ports import LogAccess
from resprout.edge.messages import EventRead, EventsEnd, ReadEvents
from resprout.logs.declaration import LogDeclaration
from resprout.logs.messages import LogPage, LogRead
from resprout.logs.records import LogCommand, bundle_command, to_bytes
from resprout.logs.state import LogState
from resprout.logs.table import LogTable
from resprout.stacks.resprout.log_reads import (
    ENTRY_STEPS,
    FOLLOWING_MAX,
    FOLLOWING_OF_PARTY_MIN,
    PAGES_OF_PARTY,
    RETRY_TICKS,
    LogReads,
)

LOG = LogDeclaration("bank", "bank/#", ("b1", "b2"))
ENTRIES = 200


def records() -> tuple[bytes, ...]:
    state = LogState()
    state.apply(to_bytes(LogCommand("f", 1, 5, -1, begins=True)))
    found: list[bytes] = []
    for number in range(ENTRIES):
        bundle = Bundle("p", 1, number + 1, 1, 0, "bank/a", (), Guarantee.FIFO, b"", pack_payloads([b"x"]))
        found += state.apply(bundle_command("f", number + 2, 10, -1, bundle))
    return tuple(found)


RECORDS = records()


class Broker:
    """A broker without a replica, whose requests to replicas are answered when the test says so."""

    def __init__(self) -> None:
        view = SimpleNamespace(is_dead=lambda broker: False)
        seat = SimpleNamespace(name="b0", logs=(LOG,))
        self.life = cast(Any, SimpleNamespace(seat=seat, view=view, now_us=1_000, out=[]))
        self.asked: list[LogRead] = []
        port: Any = self
        self.reads = LogReads(self.life, LogTable((LOG,)), {}, port, LogAccess())

    def send(self, broker: str, message: ProtocolMessage) -> None:
        assert isinstance(message, LogRead)
        self.asked.append(message)

    def read(
        self, client: str, identity: str = "", topic: str = "bank/none", offset: int = 0, waits: bool = False
    ) -> None:
        session: Any = SimpleNamespace(name=client, identity=identity)
        self.reads.ask(session, ReadEvents(1, topic, None, LOG.subscription, offset, 0, 1 << 18, waits=waits))

    def answer(self, content: tuple[bytes, ...] = RECORDS) -> None:
        message = self.asked.pop(0)
        begin = message.offset if not content else 0
        self.reads.hear("b1", LogPage("bank", message.id, begin, content, 0, ENTRIES, 10, 1))

    def told(self, kind: type) -> int:
        return sum(isinstance(effect, Send) and isinstance(effect.message, kind) for effect in self.life.out)


def test_few_pages_are_read_at_a_time_for_all_clients_of_an_identity() -> None:
    broker = Broker()
    for number in range(40):
        broker.read(f"evil.{number % 8}", "evil", "bank/a")
    assert len(broker.asked) == PAGES_OF_PARTY
    broker.read("honest", "honest", "bank/a")
    assert len(broker.asked) == PAGES_OF_PARTY + 1, "others are served"
    for _ in range(41):
        assert len(broker.asked) <= PAGES_OF_PARTY + 1
        broker.answer()
    assert (broker.told(EventsEnd), broker.told(EventRead)) == (41, 41 * ENTRIES)


def test_searching_for_nothing_is_charged_to_the_identity() -> None:
    broker = Broker()
    broker.read("evil.1", "evil")
    broker.answer()
    assert (broker.told(EventsEnd), broker.told(EventRead)) == (1, 0)
    broker.read("evil.2", "evil")
    broker.read("honest", "honest")
    assert len(broker.asked) == 1, "the other client of the identity has not paid yet"
    broker.life.now_us += ENTRIES * ENTRY_STEPS
    broker.reads.tick()
    assert len(broker.asked) == 2


def test_a_page_says_nothing_about_what_is_behind_the_end_of_the_log() -> None:
    """A lying replica would let a reader pass over what comes later."""
    broker = Broker()
    broker.read("honest", topic="bank/a")
    asked = broker.asked.pop(0)
    broker.reads.hear(
        "b1", LogPage("bank", asked.id, 0, RECORDS, 0, ENTRIES, 10, 1, compacted=1 << 50, covered=1 << 50)
    )
    (end,) = [each.message for each in broker.life.out if isinstance(each.message, EventsEnd)]
    assert (end.following, end.end) == (ENTRIES, ENTRIES)


def test_reads_that_wait_at_the_end_leave_room_for_those_of_others() -> None:
    broker = Broker()
    broker.read("first", topic="bank/a")
    broker.answer()
    for party in range(40):
        for number in range(FOLLOWING_MAX):
            broker.read(f"evil{party}.{number % 64}", f"evil{party}", offset=ENTRIES, waits=True)
    assert len(broker.asked) < FOLLOWING_MAX * 2
    before = len(broker.asked)
    for _ in range(2 * FOLLOWING_OF_PARTY_MIN):
        broker.read("honest", "honest", offset=ENTRIES, waits=True)
    assert len(broker.asked) == before + FOLLOWING_OF_PARTY_MIN


def test_reads_of_a_client_that_leaves_count_until_they_are_answered() -> None:
    broker = Broker()
    for again in range(5):
        for number in range(PAGES_OF_PARTY):
            broker.read(f"evil.{number}", "evil")
        assert len(broker.asked) == PAGES_OF_PARTY, again
        for number in range(PAGES_OF_PARTY):
            broker.reads.leave(f"evil.{number}")
    for _ in range(PAGES_OF_PARTY):
        broker.answer()
    assert not broker.life.out
    broker.read("evil.1", "evil")
    assert len(broker.asked) == 1


def test_many_reads_that_fail_at_once_do_not_recurse() -> None:
    broker = Broker()
    for number in range(2_000):
        session: Any = SimpleNamespace(name=f"evil.{number}", identity="evil")
        broker.reads.ask(session, ReadEvents(1, "bank/a", "no condition", LOG.subscription, 0, 0, 1_000))
    for _ in range(2_000):
        broker.life.now_us += 1_000_000
        broker.reads.tick()
    assert broker.told(EventsEnd) == 2_000


def test_a_read_that_no_replica_answers_ends() -> None:
    broker = Broker()
    broker.read("honest")
    for _ in range(3 * RETRY_TICKS):
        broker.reads.tick()
    assert broker.told(EventsEnd) == 1
