"""Subscriptions that a client brings along to its next broker: many of them are taken up a portion at a time.

One frame with 100,000 took 4.5 s in one step, and 100,000 messages to each neighbour: more than a session keeps.
"""

from collections.abc import Callable
from typing import Any

import pytest

from resprout.core.bundle import Origin
from resprout.core.contract import Close, Congested, EndCode, LinkUp, Received, Send, TimerFired
from resprout.core.limits import ClientLimits
from resprout.core.message_fields import Mark, Marks, Reached, to_marks
from resprout.edge.broker import guard as guard_module
from resprout.edge.broker import session as session_module
from resprout.edge.broker import sessions as sessions_module
from resprout.edge.broker.guard import Permit
from resprout.edge.durable_messages import WhenFull
from resprout.edge.messages import Attend, HeldSubscription, Serving, SubscribeRefused, Taken
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.edge.rights import Rights, may_hear
from resprout.filters.predicate import parse_predicate
from resprout.spread.messages import Interested
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.resprout import served_clients as served_module
from resprout.stacks.resprout import subscribing as postponed_module
from resprout.stacks.resprout.subscribing import TakeUpRequests
from tests.soak import cases
from tests.stacks.test_hostile import Mute
from tests.stacks.tree import Tree

PARENTS: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b0"}
PORTION = 3


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postponed_module, "TAKE_UP_PORTION", PORTION)
    monkeypatch.setattr(sessions_module, "HELD_AT_ONCE", PORTION)
    monkeypatch.setattr(served_module, "HELD_AT_ONCE", PORTION)


def go_on(tree: Tree, is_enough: Callable[[], bool]) -> None:
    """Until then, and no longer: ghosts expire."""
    for _ in range(10_000):
        if is_enough() or not tree.one():
            return
    raise AssertionError("it does not happen")


def after_a_crash(seed: int = 1, names: int = 1) -> tuple[Tree, ResproutBroker]:
    """b1 is dead, b0 keeps what its client is owed, and `evil` has sessions with b0."""
    tree = Tree(PARENTS, {"p": "b0", "s": "b1"}, seed=seed, options=ResproutOptions(faults_tolerated=1))
    tree.start()
    tree.ask("s", SubscribeRequest("t"))
    tree.run()
    tree.machines["s"] = Mute()
    tree.crash("b1")
    broker = tree.brokers["b0"]
    go_on(tree, lambda: bool(list(broker.parts.ghosts)) and broker.life.is_settled)
    for _ in range(200):
        tree.one()
    assert list(broker.parts.ghosts)
    return tree, broker


def held(count: int, base: int = 0, topic: str = "x") -> tuple[HeldSubscription, ...]:
    return tuple([HeldSubscription(base + id, f"{topic}/{base + id}", None, ()) for id in range(1, count + 1)])


def come(broker: ResproutBroker, now_us: int, subscriptions: Any, name: str = "evil", **how: Any) -> list[Any]:
    """Somebody says that it was with b1, and brings these along."""
    effects = list(broker.step(LinkUp(name, "client", 1, 10_000, **how), now_us))
    attend = Attend(0, ("b1",), subscriptions=subscriptions, home=1)
    return [*effects, *broker.step(Received(name, attend), now_us)]


def take_up(broker: ResproutBroker, now_us: int) -> list[list[Any]]:
    """What the broker does in each step until nothing waits."""
    steps = []
    while len(broker.parts.wishes.postponed):
        steps.append(list(broker.step(TimerFired(TakeUpRequests()), now_us)))
        assert len(steps) < 1_000
    return steps


def sent(effects: list[Any], peer: str, kind: type) -> list[Any]:
    return [e.message for e in effects if isinstance(e, Send) and e.peer == peer and isinstance(e.message, kind)]


def ends(effects: list[Any]) -> list[tuple[str, EndCode]]:
    return [(effect.peer, effect.code) for effect in effects if isinstance(effect, Close)]


def test_a_step_takes_up_no_more_than_a_portion_and_the_client_is_served_with_the_last() -> None:
    tree, broker = after_a_crash()
    first = come(broker, tree.now_us, held(40))
    steps = take_up(broker, tree.now_us)
    assert [len(sent(effects, "b2", Interested)) for effects in (first, *steps)] == [0, *[PORTION] * 13, 1]
    assert [bool(sent(effects, "evil", Serving)) for effects in (first, *steps)] == [*[False] * 14, True]
    assert len(broker.parts.sessions.all["evil"].subscriptions) == 40


def test_clients_that_bring_much_along_take_turns_with_those_that_bring_little() -> None:
    tree, broker = after_a_crash()
    come(broker, tree.now_us, held(40))
    come(broker, tree.now_us, held(4, 100), name="calm")
    steps = take_up(broker, tree.now_us)
    served = [[bool(sent(effects, name, Serving)) for effects in steps].index(True) for name in ("calm", "evil")]
    assert served[0] <= 4 < served[1]


def test_nothing_is_taken_up_while_a_neighbour_lags_behind() -> None:
    tree, broker = after_a_crash()
    broker.step(Congested("b2", True), tree.now_us)
    come(broker, tree.now_us, held(40))
    assert sent(list(broker.step(TimerFired(TakeUpRequests()), tree.now_us)), "b2", Interested) == []
    relieved = list(broker.step(Congested("b2", False), tree.now_us))
    assert len(sent(relieved, "b2", Interested)) == PORTION


def test_what_cannot_be_read_ends_the_session_of_its_sender_alone_and_leaves_nothing() -> None:
    tree, broker = after_a_crash()
    come(broker, tree.now_us, (*held(20), HeldSubscription(20, "x/20", None, ())))
    steps = take_up(broker, tree.now_us)
    assert ends([effect for effects in steps for effect in effects]) == [("evil", EndCode.NONE)]
    assert not broker.parts.interest.index.predicates_of("evil") and "evil" not in broker.parts.sessions.all


def test_a_client_that_leaves_meanwhile_leaves_nothing_behind() -> None:
    tree, broker = after_a_crash()
    come(broker, tree.now_us, held(20))
    broker.step(TimerFired(TakeUpRequests()), tree.now_us)
    broker.parts.served.cut_off("evil", "it goes")
    assert not broker.parts.interest.index.predicates_of("evil") and not len(broker.parts.wishes.postponed)
    come(broker, tree.now_us, held(20), limits=ClientLimits(identity_subscriptions=20))
    assert sent(take_up(broker, tree.now_us)[-1], "evil", Serving), "what it had counts no more"


def test_subscriptions_that_wait_to_be_taken_up_count_for_their_identity() -> None:
    """Each of 1,024 sessions kept a frame of 25 MB."""
    tree, broker = after_a_crash()
    limits = ClientLimits(identity_subscriptions=50)
    assert ends(come(broker, tree.now_us, held(40), identity="mallory", limits=limits)) == []
    second = come(broker, tree.now_us, held(40), name="evil2", identity="mallory", limits=limits)
    assert ends(second) == [("evil2", EndCode.NONE)], "it may come again later"
    assert ends(come(broker, tree.now_us, held(40), name="other", identity="alice", limits=limits)) == []
    take_up(broker, tree.now_us)
    assert set(broker.parts.sessions.all).issuperset({"evil", "other"})


def test_refusals_of_subscriptions_that_are_brought_along_are_kept_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_module, "WITHHELD_MAX", 10)
    tree, broker = after_a_crash()
    limits = ClientLimits(identity_subscriptions=5)
    come(broker, tree.now_us, held(15), limits=limits)
    assert sent(take_up(broker, tree.now_us)[-1], "evil", Serving), "so many are refused when it has come"
    come(broker, tree.now_us, held(16), name="evil2", limits=limits)
    steps = take_up(broker, tree.now_us)
    assert ends(steps[-1]) == [("evil2", EndCode.FORBIDDEN)]


def test_a_client_gets_everything_once_that_is_published_while_its_subscriptions_are_taken_up() -> None:
    for seed in range(cases(8, 30)):
        tree = Tree(PARENTS, {"p": "b0", "q": "b2", "s": "b1"}, seed=seed, options=ResproutOptions(faults_tolerated=1))
        tree.start()
        for number in range(20):
            tree.ask("s", SubscribeRequest(f"t/{number}"))
        tree.run()
        published: list[bytes] = []

        def publish(tree: Tree = tree, published: list[bytes] = published) -> None:
            for name in ("p", "q"):
                published.append(b"%d" % len(published))
                tree.ask(name, PublishRequest(f"t/{len(published) % 20}", published[-1]))

        publish()
        tree.crash("b1")
        for _ in range(60):
            publish()
            for _ in range(tree.rng.randint(0, 12)):
                tree.one()
        tree.run()
        assert sorted(message.payload for message in tree.delivered["s"]) == sorted(published), seed


def test_rules_are_asked_about_a_portion_of_many_subscriptions_and_forbidden_ones_are_owed_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rules were asked about 100,000 subscriptions when they came: 0.7 s in one step."""
    looked: list[str] = []

    def noted(rights: Rights, client: str, topic_filter: str) -> bool:
        looked.append(topic_filter)
        return may_hear(rights, client, topic_filter)

    monkeypatch.setattr(guard_module, "may_hear", noted)
    tree, broker = after_a_crash()
    rights = Rights(subscribe=("x/#",), block=("x/1",))
    broker.guard = guard_module.Guard(lambda client: Permit(rights), lambda client, why: None)
    subscriptions = (*held(20), HeldSubscription(90, "secret", None, ()), *held(5, 30))
    broker.step(LinkUp("evil", "client", 1, 10_000), tree.now_us)
    attend = Attend(0, ("b1",), subscriptions=subscriptions, home=1, when_full=WhenFull.BLOCK)
    broker.step(Received("evil", attend), tree.now_us)
    assert looked == []
    effects: list[Any] = []
    while len(broker.parts.wishes.postponed):
        looked.clear()
        effects += broker.step(TimerFired(TakeUpRequests()), tree.now_us)
        assert len(looked) <= PORTION
    effects += broker.step(Received("evil", Taken(0)), tree.now_us)
    session = broker.parts.sessions.all["evil"]
    assert len(session.subscriptions) == 25 and "secret" not in [one.filter for one in session.users]
    assert [one.id for one in sent(effects, "evil", SubscribeRefused)] == [90]
    assert session.when_full is WhenFull.DISCONNECT, "rules let it block for one filter of 25"


def test_the_last_portion_costs_what_the_bases_hold_and_not_the_number_of_subscriptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The step in which a client with 100,000 subscriptions was served took 0.36 s, mostly for empty bases."""
    made: list[int] = []

    def noted(base: dict[Origin, Reached]) -> Marks:
        made.append(len(base))
        return to_marks(base)

    monkeypatch.setattr(sessions_module, "to_marks", noted)
    tree, broker = after_a_crash()
    with_base = HeldSubscription(90, "x/y", None, (Mark("p", "ordered", 1, 1),))
    come(broker, tree.now_us, (*held(40), with_base))
    made.clear()
    take_up(broker, tree.now_us)
    assert made == [1]
    confirmed = broker.parts.sessions.all["evil"].confirmed
    assert len(confirmed) == 41 and confirmed[parse_predicate("x/1", None)] == ()
    assert confirmed[parse_predicate("x/y", None)] == (Mark("p", "ordered", 1, 1),)
