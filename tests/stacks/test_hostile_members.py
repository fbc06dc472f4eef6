"""What ends a broker's life or changes the root is believed only from those whom it is for: not from a stranger, nor
from a client, nor from a child that has joined honestly and lies from then on."""

from typing import Any

import pytest

from resprout.core.bundle import pack_payloads
from resprout.core.contract import LinkUp, Open, Received, Retire
from resprout.core.guarantee import Guarantee
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.order.messages import Forward, Lock, Submit, TotalCopy
from resprout.overlay.messages import (
    Configuration,
    Decided,
    Declared,
    Enrol,
    Fenced,
    Gone,
    Life,
    Orphan,
    PreVote,
    Registration,
    Suspect,
    Tell,
    Vote,
    Voter,
)
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.resprout.messages import Attach, AttachRequest, ParcelEnd, ParcelRows, Tombstone
from tests.stacks.test_hostile import broker_with, bundle, busy_star, check_the_others_go_on, closed, cut_off
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
    root = tree.brokers["b0"].life.view.configuration
    tree.forge("b2", victim, ATTACKS[attack])
    tree.run()
    assert {name: life for name, life in lives(tree).items() if name != "b2"} == {"b0": 1, "b1": 1, "b3": 1}
    for name in ("b0", "b1", "b3"):
        view = tree.brokers[name].life.view
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
    before = broker.life.view.configuration
    effects = broker.step(Received("stranger", message), 0)
    assert not any(isinstance(effect, Retire) for effect in effects)
    assert not any(isinstance(outcome, Declared) for outcome in broker.life.outcomes)
    assert list(broker.parts.links) == ["n", "m"] and broker.life.view.configuration == before
    assert not broker.life.view.tombstones and not broker.life.view.forgotten
    assert broker.parts.seen.is_new(bundle(publisher="c", first=1))


def test_a_broker_whose_lease_is_lost_believes_whoever_tells_it_that_it_is_dead() -> None:
    """It may have been declared dead, and its parent be out of reach."""
    tree = chain()
    council = tree.brokers["b1"].parts.council
    assert council.leased
    council.silent("b0", True, tree.brokers["b1"].life.now_us)  # its host says that it is gone
    tree.forge("b2", "b1", Fenced(1))
    tree.run()
    assert tree.incarnations["b1"] == 2


def test_a_broker_that_calls_itself_dead_leads_no_repair_even_where_the_lease_is_lost() -> None:
    """The link to it was shut for that repair, which nobody ended, so totals waited for ever. Found by
    `python -m tests.fuzz --role member --seed 96200038`."""
    tree = chain()
    council = tree.brokers["b1"].parts.council
    council.silent("b0", True, tree.brokers["b1"].life.now_us)
    tree.forge("b2", "b1", AttachRequest(1, (Life("b2", 1 << 40),)))
    while tree.streams.between("b2", "b1"):
        tree.arrive("b2", "b1")
    assert tree.brokers["b1"].life.view.neighbours["b2"], "its link is open"


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
    assert tree.brokers["b0"].parts.forwarding.forged == 1
    check_the_others_go_on(tree)


def test_a_child_that_gives_a_total_a_place_is_cut_off() -> None:
    """Only the root gives places. A client of the root was told of a receipt for a total that it never published, and
    closed its session with the root. Found by `tests.fuzz`."""
    tree = busy_star()
    tree.forge("b1", "b0", Lock(0, 9, bundle(publisher="p", first=2, count=9)))
    tree.run()
    assert ("b1", "a lock comes from the parent: only the root gives places") in cut_off(tree)
    assert not [one for one in tree.closed if one[0] == "p"]
    check_the_others_go_on(tree)


def test_a_bundle_that_goes_on_where_a_client_of_this_broker_stopped_is_not_believed() -> None:
    """Its first message is known here, the others are not: they cannot come from elsewhere."""
    tree = busy_star()
    tree.forge("b1", "b0", Forward(bundle(publisher="p", first=1, count=5), 1))
    tree.run()
    assert tree.brokers["b0"].parts.seen.mark(("p", "ordered", 1)) == 1
    check_the_others_go_on(tree)


def test_a_number_that_a_client_of_this_broker_has_published_and_nobody_has_seen_is_its_own() -> None:
    """The client's publication waits behind a total. A forged one of the same number would be taken in its place."""
    tree = busy_star()
    parts = tree.brokers["b0"].parts
    parts.sessions.all["p"].last["ordered"] = 2  # the second one waits
    tree.forge("b1", "b0", Forward(bundle(publisher="p", first=2), 1))
    tree.forge("b1", "b0", Submit(bundle(publisher="p", first=2, guarantee=Guarantee.TOTAL)))
    tree.run()
    assert parts.forwarding.forged == 2 and parts.seen.mark(("p", "ordered", 1)) == 1


def test_a_copy_of_a_total_that_a_client_of_this_broker_never_published_is_not_kept() -> None:
    """The client's own total of that number would count as ordered, and be dropped. Found by `tests.fuzz`."""
    tree = busy_star()
    tree.forge("b1", "b0", TotalCopy(0, 9, bundle(publisher="p", first=2, guarantee=Guarantee.TOTAL)))
    tree.run()
    tree.ask("p", PublishRequest("t", b"own", Guarantee.TOTAL))
    tree.run()
    assert [message.payload for message in tree.delivered["s"]].count(b"own") == 1


def test_what_a_repair_says_about_a_client_that_publishes_here_is_not_believed() -> None:
    """Neighbours have its publications from here. Of a client that is elsewhere, they know more."""
    tree = busy_star()
    parts = tree.brokers["b0"].parts
    parts.forwarding.raise_seen(("p", "ordered", 1), NUMBER)
    parts.forwarding.raise_seen(("s", "ordered", 1), NUMBER)
    assert parts.seen.mark(("p", "ordered", 1)) == 1 and parts.seen.mark(("s", "ordered", 1)) == NUMBER


def test_a_parcel_of_a_repair_that_nobody_leads_buries_nobody() -> None:
    """The parent believed a child that its own parent was dead, and had it fenced. Found by `tests.fuzz`."""
    tree = chain()
    dead = (Life("b0", 1 << 40), Life("b3", 1))
    for part in (Attach(7, "b9", dead, 1, 0), ParcelRows(tuple(map(Tombstone, dead))), ParcelEnd()):
        tree.forge("b2", "b1", part)
    tree.run()
    tree.detector()
    tree.run()
    assert not tree.brokers["b1"].life.view.tombstones
    assert {name: life for name, life in lives(tree).items() if name != "b2"} == {"b0": 1, "b1": 1, "b3": 1}


def test_a_broker_with_a_lease_believes_no_voter_that_its_neighbours_are_dead() -> None:
    """Others that it does not hear itself may be dead, as others say."""
    tree = chain()
    b1 = tree.brokers["b1"]
    dead = (Life("b0", 9), Life("b3", 1), Life("b9", 1))
    assert b1.parts.council.believed_deaths("b2", dead, b1.life.now_us) == (Life("b9", 1),)
    assert b1.parts.council.believed_deaths("b0", dead, b1.life.now_us) == dead, (
        "its parent judges it, and whoever is beside"
    )


@pytest.mark.parametrize(
    "voters", [(), (Voter("b0", 9, ""),), (Voter("b0", 1, ""), Voter("x", 1, ""), Voter("y", 1, ""))], ids=repr
)
def test_a_root_with_a_lease_follows_no_configuration_that_it_has_not_made(voters: tuple[Voter, ...]) -> None:
    """It would not hear the voters, lose its lease, and believe the next one that calls it dead. Found by
    `tests.fuzz`."""
    tree = chain()
    tree.perform("b2", [Open("b0")])
    tree.run()
    false = Configuration(9, voters)
    before = tree.brokers["b0"].life.view.configuration
    tree.forge("b2", "b0", Decided(false))
    tree.forge("b2", "b0", Enrol(1, 1, (), Configuration(), Configuration(), false))
    tree.run()
    assert tree.brokers["b0"].life.view.configuration == before == tree.brokers["b0"].life.view.decided


def test_a_neighbour_is_not_blamed_for_a_configuration_that_a_broker_below_it_made_up() -> None:
    """It registers the death of a child with the configuration that it believes. The root closed the link to it. Found
    by `tests.fuzz`."""
    tree = chain()
    before = tree.brokers["b0"].life.view.configuration
    false = Configuration(9, (Voter("x", 1, ""), *before.voters))
    tree.forge("b1", "b0", Tell(99, 0, (), Registration((Life("b7", 1),), false)))
    tree.run()
    assert not tree.closed
    view = tree.brokers["b0"].life.view
    assert view.configuration == before and view.tombstones["b7"] == 1


def test_an_orphan_that_calls_itself_its_parent_is_sought_once() -> None:
    """The question names each broker once, or whoever is asked closes the session. Found by `tests.fuzz`."""
    tree = chain()
    tree.perform("b2", [Open("b0")])
    tree.run()
    tree.forge("b2", "b0", Orphan(Life("b2", 1)))
    tree.run()
    assert not tree.closed


@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_voter_that_follows_a_made_up_configuration_agrees_to_no_change_until_it_is_restarted(
    is_restarted: bool,
) -> None:
    """What a member of another branch can still do, and how an operator mends it (docs/security.md)."""
    parents: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b0", "b3": "b0"}
    tree = Tree(parents, {"p": "b0", "s": "b2"}, seed=3, options=ResproutOptions(faults_tolerated=1))

    def settle() -> None:
        for _ in range(30):
            tree.run()
            tree.detector()

    tree.start()
    tree.ask("s", SubscribeRequest("t"))
    settle()
    root = tree.brokers["b0"].life.view
    tree.perform("b1", [Open("b2")])
    tree.run()
    made_up = (Voter("b1", 1, ""), Voter("b2", 1, ""), Voter("b3", 1, ""))
    tree.forge("b1", "b2", Decided(Configuration(root.decided.version + 1, made_up)))
    settle()
    tree.crash("b1")
    settle()
    if is_restarted:
        tree.crash("b2")
        settle()
        tree.recover("b2")
        settle()
    before = root.decided
    assert before.names == ("b0", "b3", "b2"), "those that are left"
    tree.crash("b3")
    settle()
    tree.ask("p", PublishRequest("t", b"x", Guarantee.TOTAL))
    settle()
    assert (root.decided.names == ("b0", "b2")) is is_restarted
    assert (root.decided == before) is not is_restarted
    assert [message.payload for message in tree.delivered["s"]] == ([b"x"] if is_restarted else [])


def test_a_root_goes_beyond_a_made_up_version_that_a_voter_takes_for_decided() -> None:
    """The voter refused every change, and the root went up by one version at a time. Found by
    `python -m tests.fuzz --role member --seed 96400101`."""
    parents: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b0", "b3": "b0"}
    tree = Tree(parents, {"p": "b0", "s": "b2"}, seed=3, options=ResproutOptions(faults_tolerated=1))

    def settle() -> None:
        for _ in range(30):
            tree.run()
            tree.detector()

    tree.start()
    tree.ask("s", SubscribeRequest("t"))
    settle()
    root, voter = tree.brokers["b0"].life.view, tree.brokers["b2"].life.view
    voter.follow_decided(Configuration(root.decided.version + (1 << 19), root.decided.voters))
    tree.crash("b1")
    settle()
    tree.crash("b3")
    settle()
    tree.ask("p", PublishRequest("t", b"x", Guarantee.TOTAL))
    settle()
    assert root.decided.names == voter.decided.names == ("b0", "b2") and root.decided == voter.decided
    assert [message.payload for message in tree.delivered["s"]] == [b"x"]


def test_a_neighbour_is_not_blamed_for_a_copy_that_cannot_be_read() -> None:
    """It keeps what others have sent without a look at the columns; a copy has the hops of a client's publication.
    Found by `python -m tests.fuzz --role member --seed 96700121`."""
    broker = broker_with(Received("n", Forward(bundle(1, publisher="ghost"), 1)))
    spoiled = bundle(1, 2, publisher="ghost", payloads=pack_payloads([b"!"]))
    assert closed(broker.step(Received("n", Forward(spoiled, 1, is_backup=True)), 0)) == []
    assert closed(broker.step(Received("n", Forward(spoiled, 1)), 0)) == ["n"], "a client's: it had to look"
