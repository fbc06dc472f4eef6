"""Durable subscriptions belong to identities: every broker knows the owner, whatever becomes of its home."""

import random

import pytest

from resprout.edge.broker.guard import Guard, Permit
from resprout.edge.broker.session import ClientSession
from resprout.edge.durable_messages import Consume, EndSubscription, Standing, Terms, WhenFull
from resprout.edge.requests import ConsumerOver, EndRequest
from resprout.edge.rights import Rights, fault_of_consumer, fault_of_end
from resprout.overlay.messages import Life
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.resprout.durable_state import DurableState
from resprout.stacks.resprout.former import Former, KeptDurable, encode
from resprout.stacks.stack import BrokerSeat
from tests.stacks.test_durable_subscriptions import JOBS, acknowledging, began, over, payloads, publish, settle
from tests.stacks.tree import Tree

ALL_JOBS = Rights(subscribe=("jobs/#",), block=("#",))


def owner_of(client: str) -> str:
    """In these trees a client is called after its identity; guests have none."""
    identity = client.partition(".")[0]
    return "" if identity in ("guest", "p0") else identity


class Guarded:
    """A tree of three brokers, whose rules can be changed."""

    def __init__(self, seed: int = 0, guarded: bool = True, **rights: Rights) -> None:
        self.rights = rights
        self.kept: tuple[str, ...] = ()
        self.refused: list[tuple[str, str]] = []
        self._guarded = guarded
        parents: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1"}
        options = ResproutOptions(faults_tolerated=1)
        tree = self.tree = Tree(parents, {"p0": "b0"}, seed=seed, options=options, make=self._make)
        tree.identity_of = owner_of
        tree.react = acknowledging(tree)
        tree.start()
        settle(tree)

    def _make(self, seat: BrokerSeat, options: ResproutOptions, rng: random.Random) -> ResproutBroker:
        broker = ResproutBroker(seat, options, rng)
        if self._guarded:
            broker.guard = self._guard()
        return broker

    def _guard(self) -> Guard:
        return Guard(self._permit, lambda name, why: self.refused.append((name, why)), lambda name: name in self.kept)

    def _permit(self, client: str) -> Permit:
        unruled = Rights(unruled=True) if client == "p0" else ALL_JOBS
        return Permit(self.rights.get(owner_of(client) or "anybody", unruled))

    def begin_to_guard(self) -> None:
        """From now on there are rules."""
        self._guarded = True
        for broker in self.tree.brokers.values():
            broker.guard = self._guard()

    def consume(self, name: str, broker: str, terms: Terms = JOBS, durable: str = "orders") -> Standing | None:
        """What becomes of a consumer that comes; None when it is given messages."""
        self.tree.consume(name, broker, durable, terms)
        settle(self.tree)
        assert over(self.tree, name) is not None or began(self.tree, name)
        return over(self.tree, name)

    def reason(self, name: str) -> str:
        return next(news.reason for news in self.tree.news[name] if isinstance(news, ConsumerOver))

    def owners(self) -> set[str]:
        """As the brokers know them."""
        return {broker.parts.client_book.durables.states["orders"].owner for broker in self.tree.brokers.values()}


@pytest.mark.parametrize("broker", ["b0", "b1", "b2"])
@pytest.mark.parametrize("terms", [JOBS, Terms("jobs/a", None, True), Terms("jobs/#", None, False, WhenFull.SPILL)])
def test_another_identity_takes_over_nothing_at_any_broker_and_learns_nothing(broker: str, terms: Terms) -> None:
    """Attack 3: whoever could subscribe to the filter was handed what waited for another, or was told its filter."""
    network = Guarded()
    assert network.consume("alice.w0", "b2") is None
    assert network.owners() == {"alice"}
    assert network.consume("mallory.w0", broker, terms) is Standing.REFUSED
    assert network.reason("mallory.w0") == (
        "mallory.w0 may not consume 'orders': it belongs to another identity, and no `consume` rule lists it"
    )
    assert network.refused == [("mallory.w0", "the durable subscription belongs to another identity")]
    publish(network.tree, 5)
    settle(network.tree)
    assert payloads(network.tree, "alice.w0") == list(range(5)) and over(network.tree, "alice.w0") is None


def test_whoever_the_rules_let_consume_it_consumes_it_and_does_not_end_it() -> None:
    """Attack 3: an `EndSubscription` as a frame needed no right at all."""
    network = Guarded(auditor=Rights(subscribe=("jobs/#",), block=("#",), consume=("ord*",)))
    group = Terms("jobs/#", None, True)
    assert network.consume("alice.w0", "b2", group) is None
    assert network.consume("auditor.w0", "b0", group) is None
    network.tree.forge("auditor.w0", "b2", EndSubscription())
    settle(network.tree)
    assert "orders" in network.tree.brokers["b2"].parts.durables.consumers.held, "it is not the auditor's to end"
    assert network.reason("auditor.w0") == (
        "auditor.w0 may not end 'orders': it belongs to another identity, and no `manage` rule lists it"
    )
    network.tree.ask("alice.w0", EndRequest())  # type: ignore[arg-type]
    settle(network.tree)
    assert over(network.tree, "alice.w0") is Standing.ENDED, "it is its owner's"


def test_rights_to_another_name_do_not_let_a_consumer_in_that_waits() -> None:
    """Rights belong to the name that is asked for. Only the rule that a session asks once (`ClientSession.check_turn`)
    kept the rights to a second name from holding for the first while that waited."""
    network = Guarded(mallory=Rights(subscribe=("jobs/#",), consume=("scratch",)))
    broker = network.tree.brokers["b0"]
    session = ClientSession("mallory.w0", 1, 1 << 20, identity="mallory")
    assert broker.guard is not None
    broker.guard(session, Consume("orders", Terms("jobs/#", None, True, WhenFull.DROP_OLDEST, 9), 10))
    broker.guard(session, Consume("scratch", Terms("vault/#", None, True, WhenFull.DROP_OLDEST, 9), 10))
    assert "it belongs to another identity" in fault_of_consumer(session, "orders", "alice")
    assert not fault_of_consumer(session, "scratch", "alice")
    assert "it belongs to another identity" in fault_of_end(session, "orders", "alice")


def test_a_consumer_of_others_is_not_told_what_they_asked_for() -> None:
    network = Guarded(auditor=Rights(subscribe=("jobs/#",), block=("#",), consume=("*",)))
    assert network.consume("alice.w0", "b2", Terms("jobs/secret", None, False)) is None
    assert network.consume("auditor.w0", "b2", JOBS) is Standing.DIFFERENT
    assert network.reason("auditor.w0") == "'orders' is there already, with other terms"
    assert network.consume("alice.w1", "b2", JOBS) is Standing.DIFFERENT
    assert "jobs/secret" in network.reason("alice.w1"), "the owner is told"


def test_who_may_manage_it_ends_it_and_the_name_is_free() -> None:
    network = Guarded(janitor=Rights(subscribe=("jobs/#",), block=("#",), consume=("*",), manage=("orders",)))
    assert network.consume("alice.w0", "b2") is None
    assert network.consume("janitor.w0", "b2") is None
    network.tree.ask("janitor.w0", EndRequest())  # type: ignore[arg-type]
    settle(network.tree)
    assert over(network.tree, "janitor.w0") is Standing.ENDED
    assert network.consume("mallory.w0", "b1") is None
    assert network.owners() == {"mallory"}


def test_the_owner_stays_the_owner_when_the_broker_that_held_it_is_dead() -> None:
    network = Guarded()
    assert network.consume("alice.w0", "b2") is None
    network.tree.crash("b2")
    settle(network.tree)
    publish(network.tree, 3)
    settle(network.tree)
    assert network.consume("mallory.w0", "b0") is Standing.REFUSED
    assert network.consume("mallory.w1", "b1") is Standing.REFUSED
    assert payloads(network.tree, "alice.w0") == [0, 1, 2]
    network.tree.recover("b2")
    settle(network.tree)
    assert network.owners() == {"alice"}, "the next life of the broker knows it, too"
    assert network.consume("mallory.w2", "b2") is Standing.REFUSED


def test_of_two_that_create_it_at_once_one_owns_it_and_the_other_is_refused() -> None:
    for seed in range(12):
        network = Guarded(seed)
        network.tree.consume("alice.w0", "b0", "orders", JOBS)
        network.tree.consume("mallory.w0", "b2", "orders", JOBS)
        settle(network.tree)
        (owner,) = network.owners()
        other = {"alice": "mallory", "mallory": "alice"}[owner]
        assert over(network.tree, f"{owner}.w0") is None
        assert over(network.tree, f"{other}.w0") is Standing.REFUSED


def test_one_without_an_owner_belongs_to_the_first_identity_that_consumes_it() -> None:
    """As an earlier release, or a network without rules, has left it."""
    network = Guarded(guarded=False, auditor=Rights(subscribe=("jobs/#",), block=("#",), consume=("*",)))
    assert network.consume("guest.w0", "b1") is None
    assert network.owners() == {""}
    network.begin_to_guard()
    assert network.consume("guest.w1", "b0") is Standing.REFUSED, "it has shown nothing"
    assert network.consume("auditor.w0", "b1") is None
    assert network.owners() == {""}, "who may look at everything owns none of it"
    assert network.consume("alice.w0", "b2") is None
    assert network.owners() == {"alice"}
    assert network.consume("mallory.w0", "b0") is Standing.REFUSED


def test_a_name_that_the_rules_keep_is_created_by_nobody_else() -> None:
    network = Guarded(alice=Rights(subscribe=("jobs/#",), block=("#",), consume=("orders",)))
    network.kept = ("orders",)
    assert network.consume("mallory.w0", "b0") is Standing.REFUSED
    assert "the rules keep that name for other identities" in network.reason("mallory.w0")
    assert network.consume("alice.w0", "b1") is None and network.owners() == {"alice"}


def test_who_shows_nothing_creates_only_what_the_rules_let_anybody_consume() -> None:
    network = Guarded(anybody=Rights(subscribe=("jobs/#",), block=("#",), consume=("public-*",)))
    assert network.consume("guest.w0", "b0") is Standing.REFUSED
    assert network.consume("guest.w1", "b0", durable="public-jobs") is None


def test_a_record_of_an_earlier_release_has_no_owner() -> None:
    state = DurableState("orders", JOBS, 1, Life("b0", 1), "", owner="alice")
    whole = Former([encode(KeptDurable(state))])
    earlier = Former([encode(["durable", _fields(state)[: state.__struct_fields__.index("owner")]])])
    assert [one.owner for one in (*whole.durables, *earlier.durables)] == ["alice", ""]


def _fields(state: DurableState) -> list[object]:
    return [getattr(state, name) for name in state.__struct_fields__]
