"""What waits for durable subscriptions that spill: on disk, at whoever keeps it, and nobody is held back for it."""

import gc
import random
from collections import Counter
from collections.abc import Callable
from types import FunctionType, ModuleType

import pytest

from resprout.core.contract import Hold
from resprout.core.guarantee import Guarantee
from resprout.edge.durable_messages import Standing, Terms, WhenFull
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.journal.spill import SpillSegments
from resprout.order.entry import SpillState
from resprout.sim.disk import VirtualFiles
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.stack import BrokerSeat
from tests.stacks.test_durable_subscriptions import acknowledging, over, settle
from tests.stacks.tree import Tree

SPILL = Terms("jobs/#", None, False, WhenFull.SPILL)
LOG = 32 << 10
BODY = 4 << 10
Make = Callable[[BrokerSeat, ResproutOptions, random.Random], ResproutBroker]


class SpillTree(Tree):
    """A line of brokers; a publisher at its beginning, a reader at its end. It remembers who was ever held back."""

    def __init__(self, options: ResproutOptions, brokers: int = 4, make: Make = ResproutBroker) -> None:
        parents: dict[str, str | None] = {f"b{n}": f"b{n - 1}" if n else None for n in range(brokers)}
        self.files: list[VirtualFiles] = []
        self.peak = 0
        self.ever_held: set[tuple[str, str]] = set()
        super().__init__(
            parents, {"p": "b0", "reader": f"b{brokers - 1}"}, seed=1, options=options, make=make, window=LOG
        )
        self.react = acknowledging(self)
        self.start()
        settle(self)

    def make_store(self, most: int) -> SpillSegments:
        self.files.append(VirtualFiles())
        return SpillSegments(self.files[-1], most)

    def perform(self, name: str, effects) -> None:  # type: ignore[no-untyped-def]
        self.ever_held |= {(name, effect.peer) for effect in effects if isinstance(effect, Hold)}
        super().perform(name, effects)
        broker = self.machines.get(name)
        if isinstance(broker, ResproutBroker):
            self.peak = max(self.peak, broker.parts.log.bytes_held)

    def publish(self, count: int, first: int = 0) -> None:
        for number in range(first, first + count):
            body = b"%d " % number + bytes(BODY)
            self.ask("p", PublishRequest("jobs/a", body, guarantee=Guarantee.CAUSAL))
            if number % 2:
                self.run()
        settle(self)

    def got(self, name: str) -> list[int]:
        return [int(message.payload.split(b" ")[0]) for message in self.delivered[name]]

    def waits_at(self, home: str) -> None:
        """A subscription that nobody consumes now."""
        self.consume("w", home, "archive", SPILL)
        settle(self)
        self.lose("w")
        settle(self)

    @property
    def spilled(self) -> dict[str, int]:
        return {name: broker.parts.spilling.bytes_on_disk for name, broker in self.brokers.items()}


def bodies_in(broker: ResproutBroker) -> int:
    """Bytes of payloads in all that can be reached from it, but for its disk."""
    found, look, count = {id(broker)}, [broker], 0
    while look:
        for each in gc.get_referents(look.pop()):
            if id(each) not in found and not isinstance(each, Tree | VirtualFiles | ModuleType | type | FunctionType):
                found.add(id(each))
                look.append(each)
                count += len(each) if isinstance(each, bytes) and len(each) > BODY else 0
    return count


@pytest.mark.parametrize("home", ["b0", "b2", "b3"])
def test_twenty_times_the_log_waits_and_no_broker_has_more_than_the_log_in_memory_or_holds_anybody_back(
    home: str,
) -> None:
    tree = SpillTree(ResproutOptions(log_bytes=LOG))
    tree.waits_at(home)
    count = 20 * LOG // BODY
    tree.publish(count)
    assert tree.brokers[home].parts.spilling.bytes_on_disk > 19 * LOG
    assert tree.peak < LOG, "what is kept for others is on disk, too"
    assert all(bodies_in(broker) < LOG for broker in tree.brokers.values()), "and nobody else refers to it"
    assert not tree.ever_held
    tree.consume("again", "b1", "archive", SPILL)
    settle(tree)
    assert tree.got("again") == list(range(count))
    assert not any(message.redelivered for message in tree.delivered["again"])
    for broker in tree.brokers.values():
        log = broker.parts.log
        assert not log.entries and not log.bytes_held and not log.local_bytes and not log.patient
        assert not broker.parts.spilling.bundles_on_disk
        assert all(link.held_bytes == 0 for link in broker.parts.links.values())


def test_who_subscribes_plainly_and_blocks_and_does_not_read_still_holds_publishers_back() -> None:
    tree = SpillTree(ResproutOptions(log_bytes=LOG, subscriber_bytes=LOG), brokers=2)
    tree.machines["reader"].when_full = WhenFull.BLOCK  # type: ignore[attr-defined]
    tree.waits_at("b1")
    tree.ask("reader", SubscribeRequest("jobs/#"))
    settle(tree)
    for broker in tree.brokers.values():
        if "reader" in broker.parts.sessions.all:
            broker.parts.sessions.all["reader"].room = 0
    tree.publish(6 * LOG // BODY)
    assert ("b0", "p") in tree.ever_held


def test_when_the_disk_is_full_publishers_are_held_back_it_is_said_once_and_nothing_is_lost() -> None:
    tree = SpillTree(ResproutOptions(log_bytes=LOG, subscriber_bytes=LOG, spill_bytes=2 * LOG))
    tree.waits_at("b2")
    count = 10 * LOG // BODY
    tree.publish(count)
    assert ("b0", "p") in tree.ever_held
    assert tree.spilled["b2"] <= 2 * LOG and tree.peak < 3 * LOG
    said = [note for note in tree.notes if note[:2] == ("b2", "spill")]
    assert len(said) == 1 and "are the most that may be spilled" in said[0][2]
    assert tree.brokers["b2"].parts.spilling.refused
    tree.consume("again", "b3", "archive", SPILL)
    settle(tree)
    settle(tree)
    assert tree.got("again") == list(range(count))
    assert not any(tree.spilled.values()) or max(tree.spilled.values()) < LOG


def test_a_disk_that_refuses_is_told_and_tried_again() -> None:
    tree = SpillTree(ResproutOptions(log_bytes=LOG), brokers=2)
    tree.waits_at("b1")
    for files in tree.files:
        files.room = 0
    tree.publish(20)
    assert [note for note in tree.notes if note[1] == "spill" and "No space left" in note[2]]
    assert not any(tree.spilled.values())
    for files in tree.files:
        files.room = None
    tree.publish(20, first=20)
    assert all(tree.spilled.values())
    tree.consume("again", "b0", "archive", SPILL)
    settle(tree)
    assert tree.got("again") == list(range(40))


@pytest.mark.parametrize(("full", "home"), [("b0", "b1"), ("b1", "b2"), ("b1", "b0")])
def test_whoever_keeps_copies_and_has_no_room_for_them_pushes_back_as_well(full: str, home: str) -> None:
    def make(seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> ResproutBroker:
        has_room = seat.name != full
        narrow = ResproutOptions(log_bytes=LOG, subscriber_bytes=LOG, spill_bytes=256 << 20 if has_room else 0)
        return ResproutBroker(seat, narrow, rng)

    tree = SpillTree(ResproutOptions(), make=make)
    tree.waits_at(home)
    count = 12 * LOG // BODY
    tree.publish(count)
    assert ("b0", "p") in tree.ever_held
    assert tree.peak < 4 * LOG
    tree.consume("again", "b3", "archive", SPILL)
    for _ in range(4):
        settle(tree)
    assert tree.got("again") == list(range(count))
    assert not any(broker.parts.log.stuck for broker in tree.brokers.values())


def test_what_was_spilled_outlives_its_home() -> None:
    tree = SpillTree(ResproutOptions(log_bytes=LOG))
    tree.waits_at("b2")
    tree.publish(50)
    tree.crash("b2")
    settle(tree)
    tree.publish(10, first=50)
    tree.consume("again", "b0", "archive", SPILL)
    settle(tree)
    settle(tree)
    assert tree.got("again") == list(range(60))
    assert tree.peak < 55 * (BODY + 80), "a repair brings it back once"


def test_a_broker_that_cannot_read_what_it_spilled_begins_another_life_and_others_have_copies() -> None:
    tree = SpillTree(ResproutOptions(log_bytes=LOG))
    tree.waits_at("b2")
    tree.publish(50)
    home = tree.brokers["b2"].parts
    for files in tree.files:
        for name in files.names():
            if files is tree.files[2]:
                files.spoil(name, 10, 0xFF)
    tree.consume("again", "b2", "archive", SPILL)
    for _ in range(4):
        settle(tree)
    assert home.life.retired and [note for note in tree.notes if "not what is read" in note[2]]
    assert tree.got("again") == list(range(50))


def test_a_broker_that_spills_nothing_does_not_begin_such_a_subscription() -> None:
    tree = SpillTree(ResproutOptions(spill_bytes=0), brokers=1)
    tree.consume("w", "b0", "archive", SPILL)
    settle(tree)
    assert over(tree, "w") is Standing.UNSUPPORTED


@pytest.mark.parametrize("disk", [4 * LOG, 64 * LOG])
def test_what_is_taken_back_in_a_repair_is_put_on_disk_once(disk: int) -> None:
    """b0 had forgotten it and takes it back when b1 dies: then it is the only one beside the home that has it."""
    tree = SpillTree(ResproutOptions(log_bytes=LOG, spill_bytes=disk), brokers=3)
    tree.waits_at("b2")
    count = 3 * LOG // BODY
    tree.publish(count)
    assert not tree.brokers["b0"].parts.log.entries, "b1 has it"
    tree.crash("b1")
    settle(tree)
    log, spilling = tree.brokers["b0"].parts.log, tree.brokers["b0"].parts.spilling
    assert len(log.entries) == count
    states = Counter(entry.spill for entry in log.entries.values())
    assert states[SpillState.DISK] == spilling.bundles_on_disk > count // 2
    assert len(set(spilling.candidates)) == len(spilling.candidates) == states[SpillState.CANDIDATE]
    tree.consume("again", "b0", "archive", SPILL)
    settle(tree)
    assert tree.got("again") == list(range(count))
    settle(tree)
    assert not log.entries and not log.bytes_held and not log.local_bytes and not spilling.bundles_on_disk
