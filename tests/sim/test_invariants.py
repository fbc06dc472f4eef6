"""Seeded faults: each breaks one rule of bookkeeping, and the invariants find it in the step in which it happens.

The runs are small and correct without the fault (`test_an_honest_run_keeps_every_invariant`), so what is found is the
fault. The judge finds none of them: a leak delays and forgets, long before anything is delivered wrongly.
"""

from collections.abc import Callable
from typing import Any

import pytest

from resprout.core.seen import Seen
from resprout.edge.broker.session import ClientSession
from resprout.order.entry import Entry
from resprout.order.link import Track
from resprout.order.log import Log
from resprout.order.log_holdback import LogHoldBack
from resprout.order.totals.pending import Backlog, LockRecord, LockTable
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import FaultKind, FaultSpec, Scenario
from resprout.sim import swarm
from resprout.sim.checking import OneOrder
from resprout.sim.invariants import InvariantError
from resprout.sim.run import FaultAtEvent, Run, Trial
from resprout.sim.swarm import try_seed
from resprout.stacks.peers import Outbox
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.served_clients import ServedClients
from tests.stacks.stage import CHAIN, FORK, scenario

TOTALS = "mix = { fifo = 0.2, total = 0.8 }"

QUEUED = parse_scenario(
    """
    stack = "resprout"
    time_limit = "60s"
    [[broker]]
    name = "b0"
    [[broker]]
    name = "b1"
    parent = "b0"
    latency = "200ms"
    [[client]]
    name = "c1"
    broker = "b1"
    subscribe = ["a"]
    [[workload]]
    kind = "random"
    topics = ["a"]
    operations = 40
    mix = { total = 1.0 }
    interval = "2ms"
    start = "3s"
    [[fault]]
    kind = "crash"
    at = "3100ms"
    nodes = ["c1"]
    [[fault]]
    kind = "recover"
    at = "3120ms"
    nodes = ["c1"]
    """
)
"""A client that restarts while more of its totals wait at its broker than may be without a place."""


TWO_BRANCHES: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1", "b3": "b0", "b4": "b3"}


def checked(scene: Scenario, *at_events: FaultAtEvent) -> None:
    """Run with a check after every step."""
    Run(scene, None, at_events, check_period=1).finish()


def crash(event: int, *names: str) -> FaultAtEvent:
    return FaultAtEvent(event, FaultSpec(0, FaultKind.CRASH, nodes=names))


def small(**options: Any) -> Scenario:
    return scenario(FORK, operations=8, **options)


def once(call: Callable[..., Any], instead: Any, number: int = 5) -> Callable[..., Any]:
    """Leave out one call, the one with this number, and return something instead."""
    calls = 0

    def replaced(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return instead if calls == number else call(*arguments)

    return replaced


@pytest.mark.parametrize("faults", [0, 1, 2])
def test_an_honest_run_keeps_every_invariant(faults: int) -> None:
    checked(small(faults=faults))


def test_an_honest_repair_keeps_every_invariant() -> None:
    checked(scenario(CHAIN, operations=12), crash(900, "b2"))


def test_a_ghost_may_read_alone_what_everybody_has_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """With f = 2 brokers keep a total for reports that are under way when b1 and b2 die. Others have dropped its lock,
    because everybody is known to have taken it; so it need not be at f + 1 brokers, though the ghost reads it."""
    scene = scenario(TWO_BRANCHES, faults=2, operations=12, mix=TOTALS)
    checked(scene, crash(1_100, "b1", "b2"))
    monkeypatch.setattr(OneOrder, "is_forgotten", lambda *arguments: False)  # the scene shows what it is meant to
    with pytest.raises(InvariantError, match=r"b0\.1 breaks the invariant 'I2': .* at 1 of 3 brokers"):
        checked(scene, crash(1_100, "b1", "b2"))


def test_a_repair_that_leaves_too_few_copies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = scenario(TWO_BRANCHES, faults=2, operations=12, mix="mix = { fifo = 1.0 }")
    checked(scene, crash(900, "b1", "b2"))
    monkeypatch.setattr(Forwarding, "copy", lambda *arguments: None)
    with pytest.raises(InvariantError, match=r"b0\.1 breaks the invariant 'I2': .* is unread here, and at 1 of 3"):
        checked(scene, crash(900, "b1", "b2"))


def test_a_reader_next_to_a_repair_with_few_neighbours_has_as_many_copies_as_the_repair_could_make() -> None:
    """With f = 2 the root of a chain died, and its only neighbour repaired alone. That one and its child had the entry
    that a client of the child had not taken. A repair copies to neighbours, not further (decision 10)."""
    outcome = try_seed(94119037, "spilling")
    assert not outcome.failed, outcome.report


def test_a_leak_of_who_is_owed_an_entry_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "deliver_one", once(Log.deliver_one, False))
    with pytest.raises(InvariantError, match=r"b\d\.1 breaks the invariant 'ladders': .* counts .*undone"):
        checked(small())


def test_a_missing_refund_for_a_client_that_leaves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    leave = ServedClients.leave

    def leaves(self: ServedClients, name: str) -> None:
        self._log.local_bytes += self._sessions.all[name].waiting_bytes
        leave(self, name)

    checked(QUEUED)
    monkeypatch.setattr(ServedClients, "leave", leaves)
    with pytest.raises(InvariantError, match=r"b1\.1 breaks the invariant 'bytes': bytes of all local publishers"):
        checked(QUEUED)


def test_a_message_that_is_not_charged_to_its_window_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Outbox.send

    def sends(self: Outbox, peer: str, message: Any) -> int:
        room = send(self, peer, message)
        if peer in self._lanes and not self._lanes[peer].queue:
            self._lanes[peer].room += message.cost
        return room

    monkeypatch.setattr(Outbox, "send", sends)
    with pytest.raises(InvariantError, match=r"breaks the invariant 'windows': room of b\d: counted \d+, really \d+"):
        checked(small())


def test_a_bundle_that_one_end_of_a_link_counts_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Track.add

    def adds(self: Track, entry: Entry) -> None:
        add(self, entry)
        if entry.source is not None and self is entry.source.arrived and self.count == 3:
            self.count += 1

    monkeypatch.setattr(Track, "add", adds)
    with pytest.raises(InvariantError, match=r"breaks the invariant '(I5|ladders)'"):
        checked(small())


def test_an_entry_that_is_safe_and_not_shown_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogHoldBack, "take", once(LogHoldBack.take, None, 40))
    with pytest.raises(InvariantError, match=r"breaks the invariant 'I9': .* is first in line, and safe"):
        checked(small())


def test_a_total_with_another_stamp_at_one_broker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver, calls = LockTable.deliver, []

    def delivers(self: LockTable, record: LockRecord, stamp: int) -> None:
        calls.append(record)
        deliver(self, record, stamp + (len(calls) == 7))

    monkeypatch.setattr(LockTable, "deliver", delivers)
    with pytest.raises(InvariantError, match=r"breaks the invariant 'I7': the totals? at"):
        checked(small(mix=TOTALS))


def test_two_brokers_that_live_on_with_different_stamps_of_a_total_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here all stamps of one broker are too high, so they grow with places as they should."""
    deliver = LockTable.deliver
    first: list[LockTable] = []

    def delivers(self: LockTable, record: LockRecord, stamp: int) -> None:
        first[:] = first or [self]
        deliver(self, record, stamp + (self is first[0]))

    monkeypatch.setattr(LockTable, "deliver", delivers)
    with pytest.raises(InvariantError, match=r"'I7': the total at \(\d+, \d+\) has stamp \d+, at b\d it has \d+"):
        checked(small(mix=TOTALS))


def test_a_bundle_that_is_not_remembered_as_seen_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seen, "is_new", once(Seen.is_new, True))
    with pytest.raises(InvariantError, match=r"breaks the invariant 'I1': .* is in the log, and seen up to"):
        checked(small())


def test_bytes_of_a_subscriber_that_are_not_given_back_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientSession, "took", once(ClientSession.took, None))
    with pytest.raises(InvariantError, match=r"breaks the invariant 'bytes': unread bytes of c\da: counted"):
        checked(small())


def test_a_total_that_stays_counted_as_under_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backlog, "remove", once(Backlog.remove, None))
    with pytest.raises(InvariantError, match=r"breaks the invariant 'bytes': names of totals under way"):
        checked(small(mix=TOTALS))


def test_an_entry_that_is_forgotten_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Log.settle

    def settles(self: Log, entry: Entry) -> None:
        settle(self, entry)
        if entry.level == self._faults and entry.no >= 0:
            self._drop(entry)

    monkeypatch.setattr(Log, "settle", settles)
    with pytest.raises(InvariantError, match=r"breaks the invariant '(ladders|I2)'"):
        checked(small())


def test_a_swarm_reports_a_broken_invariant_with_its_step_and_the_command_that_shows_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A swarm does not check every step; the run is repeated to find the one."""
    trial = Trial(small())
    monkeypatch.setattr(swarm, "swarm_trial", lambda *_: trial)
    monkeypatch.setattr(ClientSession, "took", lambda self, item: None)
    outcome = try_seed(7)
    assert outcome.failed
    assert "breaks the invariant 'bytes': unread bytes of" in outcome.complaint
    assert "in the virtual world: seed 7, event " in outcome.complaint
    assert "resprout swarm --first 7 --seeds 1 --class faults" in outcome.report
