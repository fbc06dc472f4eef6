"""Where the report's protocol fails: one test for each correction, and one that shows it where the fix is switched off.
Named as in docs/stacks/sites.md."""

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Effect, LinkUp, Received, Send
from resprout.core.guarantee import Guarantee
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend
from resprout.replicas.ledger import Chosen, News, PatienceOver
from resprout.replicas.messages import Accept
from resprout.replicas.replica import Replica
from resprout.scenario.model import FaultKind, FaultSpec, Mix
from resprout.stacks.stack import BrokerSeat
from resprout_lab.sites.broker import SitesBroker
from resprout_lab.sites.clients import SiteClients
from resprout_lab.sites.commands import Command, Entering, Shipment, SiteBroker, SiteConfig, decode, encode
from resprout_lab.sites.gateway import Gateways, SiteWay
from resprout_lab.sites.messages import SiteCarries, SiteHas, SiteLed
from resprout_lab.sites.options import SitesOptions
from resprout_lab.sites.state import Early, LinkBook, SiteIntake, SiteState, first_state
from tests.stacks.sites_runs import (
    ROW,
    WORK_BEGINS_US,
    Played,
    clients,
    crash,
    decide_alone,
    freeze,
    play,
    scenario,
    sites,
    work,
)  # fmt: skip

MIDDLE_US = WORK_BEGINS_US + 40_000
HOMES = {"c0": "s0b", "c1": "s1b", "c2": "s2c"}
TIMES_US = tuple(range(MIDDLE_US, MIDDLE_US + 12_000, 1_500))


def bundle(first: int, publisher: str = "p", topic: str = "t") -> Bundle:
    return Bundle(publisher, 1, first, 1, 1, topic, (), Guarantee.FIFO, b"", pack_payloads([b""]))


def struck(*faults: FaultSpec, routing: str = "filtering", near_us: int = 500) -> Played:
    return play(
        scenario(sites(ROW, near_us), clients(HOMES, "t"), work(list(HOMES), "t"), faults=faults, routing=routing)
    )


# -- A1: what was sent is never sent again under the same number ------------------------------------------------------


def test_sites_a1_a_leader_that_dies_at_any_moment_has_sent_nothing_that_its_site_does_not_know() -> None:
    for at_us in TIMES_US:
        _crashed_root(at_us).check_clean()


def test_sites_a1_a_leader_that_sends_before_the_others_know_loses_or_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    decide_alone(monkeypatch)
    assert any(played.broken() or played.result.ended != "quiescent" for played in map(_crashed_root, TIMES_US))


def _crashed_root(at_us: int) -> Played:
    """Its own site is further away than its neighbours, so that these hear of everything first, if they may."""
    return struck(crash(at_us, "s0a"), near_us=20_000)


# -- A2: a leader that wakes up is refused ----------------------------------------------------------------------------


def test_sites_a2_a_leader_that_wakes_up_before_it_hears_of_its_successor_decides_nothing() -> None:
    frozen = freeze(MIDDLE_US, MIDDLE_US + 4_000_000, "s0a")
    homes = {**HOMES, "d0": "s0a"}
    played = play(scenario(sites(ROW), clients(homes, "t"), work(list(homes), "t", operations=200), faults=frozen))
    played.check_clean()
    assert played.leaders("s0")[0] == "s0a/1" != played.leaders("s0")[-1]


def test_sites_a2_without_a_majority_it_is_a_second_sequencer(monkeypatch: pytest.MonkeyPatch) -> None:
    decide_alone(monkeypatch)
    frozen = freeze(MIDDLE_US, MIDDLE_US + 4_000_000, "s0a")
    homes = {**HOMES, "d0": "s0a"}
    played = play(scenario(sites(ROW), clients(homes, "t"), work(list(homes), "t", operations=200), faults=frozen))
    assert played.broken()


class OneSite:
    """A site of one broker, `p`, which is the root; a site `q` below it has two, that say whatever they are told to."""

    def __init__(self) -> None:
        self.broker = SitesBroker(BrokerSeat("p", 1, None), SitesOptions(order="fifo", routing="flooding"), Random(1))
        self.broker.start(0)
        self.names = (SiteBroker("q1", 1), SiteBroker("q2", 1))
        for name in ("q1", "q2"):
            self.broker.step(LinkUp(name, "broker", 1, 1 << 20), 1)

    def led(self, name: str, term: int) -> None:
        self.say(name, SiteLed("q", term, self.names, "p", 0, 0))

    def say(self, name: str, message: object) -> list[Effect]:
        return list(self.broker.step(Received(name, message), 2))

    def sends(self, name: str, term: int, number: int) -> None:
        self.say(name, SiteCarries(term, number, number - 1, bundle(number), 1, 0))

    @property
    def heard(self) -> int:
        return self.broker.agreement.state.links["q"].heard


def test_sites_a2_neighbours_refuse_what_an_old_leader_says() -> None:
    net = OneSite()
    net.led("q1", 3)
    net.sends("q1", 3, 1)
    net.led("q2", 7)
    net.sends("q1", 3, 2)
    assert net.heard == 1, "its term is over"
    net.led("q1", 3)
    net.sends("q1", 3, 2)
    assert net.heard == 1, "also when it says that it leads"
    net.sends("q2", 7, 2)
    assert net.heard == 2


def test_sites_a2_without_terms_an_old_leader_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SiteWay, "is_current", lambda self, term: True)
    net = OneSite()
    net.led("q1", 3)
    net.led("q2", 7)
    net.sends("q1", 3, 1)
    assert net.heard == 1


# -- A3: a new leader sends all that may be missing --------------------------------------------------------------------


def test_sites_a3_a_new_leader_sends_all_that_its_neighbours_may_lack() -> None:
    for at_us in TIMES_US[::2]:
        struck(crash(at_us, "s0a", "s1a"), routing="flooding").check_clean()


def test_sites_a3_one_that_sends_only_what_comes_after_loses_what_was_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing_before(self: Gateways, site: str, way: SiteWay, heard: int) -> None:
        way.waiting, way.reached = deque(), 0
        way.sent = self._agreement.state.links[site].last

    monkeypatch.setattr(Gateways, "_begin_again", nothing_before)
    runs = [struck(crash(at_us, "s0a", "s1a"), routing="flooding") for at_us in TIMES_US[::2]]
    assert any("lost" in played.broken() for played in runs)


def test_sites_a3_the_watermark_of_a_link_is_known_to_all_brokers_of_a_site() -> None:
    played = struck()
    for name in ("s0a", "s0b", "s0c"):
        state = played.state(name)
        assert state.links["s1"].last == played.state("s0a").links["s1"].last
        assert played.state("s1a").links["s0"].heard == state.links["s1"].last
    assert played.messages(SiteHas)


# -- A4: the next number of each publisher is expected -----------------------------------------------------------------


class ThreeReplicas:
    """The log of a site by hand: messages are carried when the test says so."""

    def __init__(self) -> None:
        self.names = ("a/1", "b/1", "c/1")
        config = SiteConfig("s", tuple([SiteBroker(name[0], 1) for name in self.names]))
        self.replicas = {name: Replica("s", name, self.names, Random(name)) for name in self.names}
        self.states = {name: first_state(config, SitesOptions()) for name in self.names}
        self.mail: list[tuple[str, str, Any]] = []
        for name in self.names:
            self.act(name, lambda replica, out: replica.start(0, out))

    def act(self, name: str, what: Callable[[Replica, list[Effect]], list[News]]) -> None:
        out: list[Effect] = []
        news = what(self.replicas[name], out)
        self.mail += [(name, effect.peer, effect.message) for effect in out if isinstance(effect, Send)]
        for one in news:
            if isinstance(one, Chosen) and one.entry.command:
                self.states[name].apply(one.slot, decode(one.entry.command))

    def stand(self, name: str, now_us: int) -> None:
        self.act(name, lambda replica, out: replica.fired(PatienceOver("s"), now_us, out))

    def propose(self, name: str, command: Command) -> None:
        self.act(name, lambda replica, out: replica.propose(encode(command), 0, out)[1])

    def carry(self, now_us: int, dead: str = "") -> None:
        while self.mail:
            sender, receiver, message = self.mail.pop(0)
            if dead not in (sender, receiver):
                self.hear(sender, receiver, message, now_us)

    def hear(self, sender: str, receiver: str, message: Any, now_us: int) -> None:
        self.act(receiver, lambda replica, out: replica.hear(sender, message, now_us, out))


def order_after_a_change_of_leader() -> list[int]:
    """A leader proposes two publications of one client, and dies; only the second of them has reached anybody. The next
    leader has it decided, and nothing in the slot before it; then the client's broker proposes the first one again."""
    net = ThreeReplicas()
    net.stand("a/1", 4_000_000)
    net.carry(4_000_000)
    net.propose("a/1", Entering(bundle(1)))
    net.propose("a/1", Entering(bundle(2)))
    (came,) = [one for one in net.mail if one[1] == "b/1" and isinstance(one[2], Accept) and one[2].first == 2]
    net.hear(*came, 4_000_000)
    net.mail.clear()
    net.stand("b/1", 20_000_000)
    net.carry(20_000_000, dead="a/1")
    net.propose("b/1", Entering(bundle(1)))
    net.carry(20_000_000, dead="a/1")
    return [placed.bundle.first for placed in net.states["b/1"].recent]


def test_sites_a4_publications_of_one_client_keep_their_order_over_a_change_of_leader() -> None:
    assert order_after_a_change_of_leader() == [1, 2]


def test_sites_a4_sequenced_as_they_come_they_are_inverted(monkeypatch: pytest.MonkeyPatch) -> None:
    def anything(self: SiteIntake, origin: object, waiting: dict[int, Early]) -> int | None:
        return min(waiting, default=None)

    def is_never_known(self: SiteIntake, item: Bundle) -> bool:
        return False

    monkeypatch.setattr(SiteIntake, "following", anything)
    monkeypatch.setattr(SiteIntake, "is_repeat", is_never_known)
    assert order_after_a_change_of_leader() == [2, 1]


# -- A5: filtering leaves no gaps --------------------------------------------------------------------------------------


def filtered() -> Played:
    """What c0 reads only the root has; what c2 reads goes all the way; nobody beyond s1 reads what c1 does."""
    homes = {"c0": "s0b", "c1": "s1b", "c2": "s2c"}
    readers = [one for name, home in homes.items() for one in clients({name: home}, f"only/{name}")]
    mix = Mix(fifo=0.5, total=0.5)
    return play(scenario(sites(ROW), readers, work(list(homes), *(f"only/{name}" for name in homes), mix=mix)))


def test_sites_a5_events_that_are_filtered_leave_no_gaps_and_nothing_is_sent_in_their_place() -> None:
    played = filtered()
    played.check_clean()
    down = [
        message
        for name, peer, message in played.said
        if isinstance(message, SiteCarries) and name.startswith("s1") and peer.startswith("s2")
    ]
    assert down and {message.bundle.topic for message in down} == {"only/c2"}
    assert any(after.number - before.number > 1 for before, after in pairwise(down))
    assert all(after.previous == before.number for before, after in pairwise(down))


def test_sites_a5_a_site_that_expects_every_number_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_dense(self: SiteState, link: LinkBook, shipment: Shipment) -> bool:
        return shipment.number == link.heard + 1

    monkeypatch.setattr(SiteState, "follows", is_dense)
    assert filtered().delivered("c2") == []


# -- A6: clients accuse nobody -----------------------------------------------------------------------------------------


def suspected() -> Played:
    """Two clients cannot reach their brokers, one of which leads, and turn to others."""
    homes = {"c0": "s0a", "c1": "s0b", "c2": "s0c"}
    cuts = [FaultSpec(MIDDLE_US, FaultKind.CUT, links=(("c0", "s0a"), ("c1", "s0b")))]
    heal = FaultSpec(MIDDLE_US + 8_000_000, FaultKind.HEAL)
    return play(
        scenario(sites({"s0": None}), clients(homes, "t"), work(list(homes), "t", operations=80), faults=[*cuts, heal])
    )


def test_sites_a6_clients_that_suspect_their_brokers_change_no_leader() -> None:
    played = suspected()
    played.check_clean()
    assert played.leaders("s0") == ["s0a/1"]


def test_sites_a6_where_clients_accuse_brokers_a_leader_that_lives_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    attends = SiteClients._attends

    def accuse(self: SiteClients, session: ClientSession, message: Attend) -> None:
        attends(self, session, message)
        replica = self._agreement.replica
        if message.tried and replica is not None and not replica.is_leading:
            leadership = replica._leadership
            leadership.leader, leadership.heard_us = None, -(1 << 40)
            leadership._willing = dict.fromkeys(replica.ledger.members)
            self._agreement.fired(PatienceOver(replica.group))
            leadership._willing = dict.fromkeys(replica.ledger.members)
            leadership._stand(self._step.now_us)

    monkeypatch.setattr(SiteClients, "_attends", accuse)
    assert len(suspected().leaders("s0")) > 1
