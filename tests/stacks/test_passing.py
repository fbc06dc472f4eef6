"""What comes from elsewhere is shown before own publications that are not safe yet, and never before its own causes."""

import random

import pytest

from resprout.core.contract import LinkDown
from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.edge.messages import Publish
from resprout.edge.requests import ClientRequest, PublishRequest, SubscribeRequest
from resprout.order.messages import Forward, Levels
from resprout.sim.network import Distances
from resprout.stacks.resprout import ResproutOptions
from tests.stacks.stage import FORK, play, scenario
from tests.stacks.test_interleavings import check_orders, check_totals
from tests.stacks.tree import Tree


def small_tree(seed: int = 0, faults: int = 1) -> Tree:
    """`here` and `reader` are clients of b0, `there` is one of b1; all of them have subscribed to `t`."""
    parents: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1"}
    homes = {"here": "b0", "reader": "b0", "there": "b1"}
    tree = Tree(parents, homes, seed=seed, options=ResproutOptions(faults_tolerated=faults))
    tree.start()
    tree.run()
    for name in homes:
        tree.ask(name, SubscribeRequest("t"))
    tree.run()
    return tree


def arrives(tree: Tree, sender: str, receiver: str, kind: type) -> None:
    """Everything on this way, up to the first of this kind."""
    while not isinstance(tree.streams.between(sender, receiver)[0][1], kind):
        tree.arrive(sender, receiver)
    tree.arrive(sender, receiver)


def got(tree: Tree, name: str) -> list[bytes]:
    return [message.payload for message in tree.delivered[name]]


def cross(tree: Tree) -> None:
    """Both brokers have a publication of a client of theirs, and neither has that of the other."""
    tree.ask("here", PublishRequest("t", b"own"))
    tree.ask("there", PublishRequest("t", b"other"))
    arrives(tree, "here", "b0", Publish)
    arrives(tree, "there", "b1", Publish)


def test_what_arrives_is_shown_before_an_own_publication_that_is_not_safe_yet() -> None:
    tree = small_tree()
    cross(tree)
    arrives(tree, "b1", "b0", Forward)
    tree.run()
    assert got(tree, "reader") == got(tree, "here") == [b"other", b"own"]
    check_orders(tree)


def test_that_something_has_come_is_said_at_once_even_to_a_neighbour_that_is_not_heard() -> None:
    """It takes what it hears from here afterwards for an answer, and what it heard before for none."""
    tree = small_tree()
    tree.ask("here", PublishRequest("t", b"own"))
    arrives(tree, "here", "b0", Publish)
    tree.brokers["b1"].parts.links["b0"].silent = True
    arrives(tree, "b0", "b1", Forward)
    assert [type(message) for _, message in tree.streams.between("b1", "b0")] == [Levels]


def test_when_a_client_has_left_what_it_published_is_not_passed() -> None:
    """It may be with another broker by now, and answer itself there."""
    tree = small_tree()
    core = tree.brokers["b0"].parts
    cross(tree)
    tree.lose("here")
    arrives(tree, "here", "b0", LinkDown)
    arrives(tree, "b1", "b0", Forward)
    assert [entry.shown for entry in core.log.entries.values()] == [False, False]


@pytest.mark.parametrize("seed", range(5))
def test_what_was_published_behind_a_repeat_does_not_pass_what_was_repeated(seed: int) -> None:
    """Its publisher has gone on elsewhere, with what waits here and what it published since."""
    tree = small_tree(seed)
    core = tree.brokers["b0"].parts
    cross(tree)
    (own,) = core.log.held_back
    assert own.bundle is not None
    tree.streams.put_before("b1", "b0", (tree.sessions["b1", "b0"], Forward(own.bundle, 1)))
    arrives(tree, "b1", "b0", Forward)
    arrives(tree, "b1", "b0", Forward)
    assert [entry.shown for entry in core.log.held_back] == [False, False]


def test_while_a_subscription_is_not_confirmed_own_publications_are_not_passed() -> None:
    """Were one of them published elsewhere as well, that copy might not come by: nobody knows here whom to ask."""
    tree = small_tree()
    tree.ask("reader", SubscribeRequest("u"))
    tree.arrive("reader", "b0")
    core = tree.brokers["b0"].parts
    assert list(core.sessions.with_unconfirmed) == ["reader"]
    cross(tree)
    arrives(tree, "b1", "b0", Forward)
    assert [entry.shown for entry in core.log.entries.values()] == [False, False]
    tree.run()
    assert not core.sessions.with_unconfirmed
    assert got(tree, "reader") == [b"own", b"other"]


@pytest.mark.parametrize("faults", [1, 2])
def test_an_answer_never_passes_what_it_answers(faults: int) -> None:
    for seed in range(40):
        tree = small_tree(seed, faults)

        def answer(name: str, message: Message) -> list[ClientRequest]:
            is_question = name == "there" and message.payload.startswith(b"own")
            return [PublishRequest("t", b"re " + message.payload)] if is_question else []

        tree.react = answer
        for number in range(4):
            tree.ask("here", PublishRequest("t", b"own %d" % number))
            tree.ask("there", PublishRequest("t", b"other %d" % number))
            for _ in range(random.Random(f"{seed} {number}").randint(0, 20)):
                tree.one()
        tree.run()
        check_orders(tree)
        order = got(tree, "reader")
        assert len(order) == 12
        for number in range(4):
            assert order.index(b"own %d" % number) < order.index(b"re own %d" % number)


@pytest.mark.parametrize("seed", range(20))
def test_everything_stays_on_its_side_of_a_total(seed: int) -> None:
    tree = small_tree(seed)
    rng = random.Random(f"totals {seed}")
    for number in range(12):
        name = rng.choice(("here", "there", "reader"))
        guarantee = rng.choice((Guarantee.TOTAL, Guarantee.CAUSAL, Guarantee.EVENTUAL))
        tree.ask(name, PublishRequest("t", b"%d" % number, guarantee, ("k",)))
        for _ in range(rng.randint(0, 12)):
            tree.one()
    tree.run()
    check_orders(tree)
    check_totals(tree)
    assert all(len(messages) == 12 for messages in tree.delivered.values())


def test_whatever_others_publish_takes_as_long_as_the_links_and_no_longer() -> None:
    """Everybody publishes all the time, so every broker always has something of its own that is not safe yet."""
    scene = scenario(FORK, mix="mix = { eventual = 0.3, fifo = 0.3, causal = 0.4 }", clients_per_broker=1)
    places = Distances()
    for broker in scene.brokers:
        places.place(broker.name, broker.parent, broker.latency_us)
    for client in scene.clients:
        places.place(client.name, client.broker, client.latency_us)
    played = play(scene)
    assert played.verdict.anomalies == []
    began = {(row.publisher, row.stream, row.seq): row.time_us for row in played.notes("publish")}
    others = [row for row in played.notes("deliver") if row.publisher != row.node]
    assert len(others) == 5 * 4 * 30
    for row in others:
        took_us = row.time_us - began[row.publisher, row.stream, row.seq]
        assert took_us == places.between(str(row.publisher), row.node)
