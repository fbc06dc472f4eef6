"""What ends a broker's life or changes the root is believed only from those whom it is for: not from a stranger, nor
from a client, nor from a child that has joined honestly and lies from then on."""

from typing import Any

import pytest

from resprout.core.contract import LinkUp, Open, Received, Retire
from resprout.core.guarantee import Guarantee
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.order.messages import Forward
from resprout.order.totals.messages import Submit
from resprout.overlay.messages import Decided, Enrol, Fenced, Gone, Orphan, PreVote, Suspect, Tell, Vote
from resprout.overlay.outcomes import Declared
from resprout.overlay.places import Configuration, Life, Registration, Voter
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.resprout.messages import AttachRequest
from tests.stacks.test_hostile import broker_with, bundle, busy_star, check_the_others_go_on
from tests.stacks.tree import Tree

CHAIN: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b1", "b3": "b1"}
NUMBER = 1 << 40


def evil_root(version: int = 9) -> Configuration:
    return Configuration(version, (Voter("b2", 1, ""), Voter("b1", 1, ""), Voter("b0", 1, "")))


ATTACKS: dict[str, Any] = {
    "Fenced": Fenced(1),
    "Fenced, all lives": Fenced(1 << 50),
    "Gone": Gone(Life("b0", 1)),
    "Orphan": Orphan(Life("b0", 1)),
    "registers its parent": Tell(1, 1, (), Registration((Life("b1", 1),), Configuration())),
    "registers its grandparent": Tell(1, 1, (), Registration((Life("b0", 1),), Configuration())),
    "registers its sister": Tell(1, 1, (), Registration((Life("b3", 1),), Configuration())),
    "makes itself the root, heard of": Tell(1, 1, (), Registration((), evil_root())),
    "makes itself the root, decided": Decided(evil_root()),
    "makes itself the root, enrolling": Enrol(1, 1, (Life("b0", 1),), evil_root(), evil_root(8), Configuration()),
    "enrols its parent as dead": Enrol(1, 1, (Life("b1", 1),), evil_root(), evil_root(8), Configuration()),
    "suspects its grandparent": Suspect(Life("b0", 1), ()),
    "suspects its sister": Suspect(Life("b3", 1), ()),
    "repairs around its parent": AttachRequest(1, (Life("b1", 1),)),
    "repairs around its grandparent": AttachRequest(1, (Life("b0", 1 << 40), Life("b2", 1))),
    "repairs around its sister": AttachRequest(1, (Life("b3", 1 << 40),)),
    "asks for a vote": PreVote(1, (Life("b0", 1),), Configuration(1, (Voter("b0", 1, ""), Voter("b1", 1, "")))),
    "votes unasked": Vote(1, True),
}


def chain() -> Tree:
    """Four brokers, with clients at all that do not lie."""
    clients = {"p": "b0", "s": "b1", "t": "b3"}
    tree = Tree(CHAIN, clients, seed=3, options=ResproutOptions(faults_tolerated=1))
    tree.start()
    for client in clients:
        tree.ask(client, SubscribeRequest("t"))
    tree.run()
    return tree


def lives(tree: Tree) -> dict[str, int]:
    return {name: life for name, life in tree.incarnations.items() if name in CHAIN}


@pytest.mark.parametrize("victim", ["b1", "b0"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_child_that_joined_honestly_ends_nobody_elses_life(attack: str, victim: str) -> None:
    tree = chain()
    if victim == "b0":  # to which it is no neighbour, but a broker that may call
        tree.perform("b2", [Open("b0")])
        tree.run()
    root = tree.brokers["b0"].core.view.configuration
    tree.forge("b2", victim, ATTACKS[attack])
    tree.run()
    assert {name: life for name, life in lives(tree).items() if name != "b2"} == {"b0": 1, "b1": 1, "b3": 1}
    for name in ("b0", "b1", "b3"):
        view = tree.brokers[name].core.view
        assert view.configuration.root == root.root == "b0" and view.decided.root in ("b0", None)
        assert not {"b0", "b1", "b3"}.intersection(view.tombstones)
    for client in ("p", "s", "t"):
        tree.ask(client, PublishRequest("t", client.encode()))
    tree.run()
    for client in ("p", "s", "t"):
        assert sorted(message.payload for message in tree.delivered[client]) == [b"p", b"s", b"t"]


@pytest.mark.parametrize(
    "message",
    [
        Fenced(1),
        Fenced(1 << 50),
        Gone(Life("n", 1)),
        Suspect(Life("n", 1), (), True),
        Suspect(Life("n", 1), (), False, (Life("n", 1), Life("m", 1))),
        Decided(Configuration(9, (Voter("stranger", 1, ""),))),
        Enrol(1, 1, (Life("b", 1),), evil_root(), evil_root(8), Configuration()),
        Enrol(1, 1, (), Configuration(9, (Voter("stranger", 1, ""),)), Configuration(), Configuration()),
        Forward(bundle(publisher="c", first=NUMBER), 1),
        Tell(1, 1, (), Registration((Life("b", 1),), Configuration())),
    ],
)
def test_a_stranger_that_calls_itself_a_broker_is_not_believed(message: Any) -> None:
    broker: ResproutBroker = broker_with()
    broker.step(LinkUp("stranger", "broker", 1, 10_000), 0)
    before = broker.core.view.configuration
    effects = broker.step(Received("stranger", message), 0)
    assert not any(isinstance(effect, Retire) for effect in effects)
    assert not any(isinstance(outcome, Declared) for outcome in broker.core.outcomes)
    assert list(broker.core.links) == ["n", "m"] and broker.core.view.configuration == before
    assert not broker.core.view.tombstones and not broker.core.view.forgotten
    assert broker.core.seen.is_new(bundle(publisher="c", first=1))


def test_a_broker_whose_lease_is_lost_believes_whoever_tells_it_that_it_is_dead() -> None:
    """It may have been declared dead, and its parent be out of reach."""
    tree = chain()
    council = tree.brokers["b1"].council
    assert council.leased
    council.silent("b0", True, tree.brokers["b1"].core.now_us)  # its host says that it is gone
    tree.forge("b2", "b1", Fenced(1))
    tree.run()
    assert tree.incarnations["b1"] == 2


def test_what_a_client_of_this_broker_never_said_is_not_believed_from_a_neighbour() -> None:
    """A forged number would silence it: what it says up to there would count as repeats."""
    tree = busy_star()
    tree.forge("b1", "b0", Forward(bundle(publisher="p", first=NUMBER), 1))
    tree.run()
    check_the_others_go_on(tree)
    assert ("b0", "note", "b1 passes on what p never said, which is served here") in tree.notes


def test_a_total_that_a_client_of_this_broker_never_said_is_not_believed_from_a_neighbour() -> None:
    """It would be told of a receipt for it, and close the session with the broker that serves it. Found by
    `tests.fuzz`."""
    tree = busy_star()
    tree.forge("b1", "b0", Submit(bundle(publisher="p", first=NUMBER, guarantee=Guarantee.TOTAL)))
    tree.run()
    assert not [one for one in tree.closed if one[0] == "p"]
    assert tree.brokers["b0"].core.forwarding.forged == 1
    check_the_others_go_on(tree)
