"""Totals beside clients and brokers that number their publications falsely: nobody else's total waits for ever.

Every broker has to say of a total with a place that its side is closed. A broker that had seen a later number of the
same publisher took such a total for old news and said nothing, so this total and all later ones of the network waited.
"""

from resprout.core.bundle import pack_payloads
from resprout.core.contract import Close, Open
from resprout.core.guarantee import Guarantee
from resprout.edge.messages import Attend, Publish
from resprout.edge.requests import PublishRequest, SubscribeRequest
from resprout.order.messages import Forward, Submit, TotalCopy
from resprout.stacks.resprout import ResproutOptions
from resprout.stacks.resprout.total_delivery import HEAVY_BYTES
from tests.stacks.test_hostile import Mute, bundle, busy_star, check_the_others_go_on, cut_off
from tests.stacks.tree import Tree


def tall_tree() -> Tree:
    """With a publisher and readers that are honest, and a client `evil` that says nothing by itself."""
    parents: dict[str, str | None] = {"b0": None, "b1": "b0", "b2": "b0", "b3": "b1"}
    homes = {"p": "b0", "near": "b1", "far": "b3", "evil": "b3"}
    tree = Tree(parents, homes, seed=4, options=ResproutOptions(faults_tolerated=1))
    tree.start()
    for name in ("near", "far", "p"):
        tree.ask(name, SubscribeRequest("t"))
    tree.run()
    tree.machines["evil"] = Mute()
    return tree


def check_totals_go_on(tree: Tree) -> None:
    tree.ask("p", PublishRequest("t", b"honest", Guarantee.TOTAL))
    tree.run()
    for name in ("near", "far", "p"):
        assert [message.payload for message in tree.delivered[name] if message.publisher == "p"] == [b"honest"], name
    assert all(not broker.parts.totals.pending for broker in tree.brokers.values())


def test_a_client_that_goes_back_in_its_numbers_at_another_broker_stops_no_total() -> None:
    tree = tall_tree()
    tree.forge("evil", "b3", Publish(bundle(20, topic="u")))  # known to b3 and b1, and to no others
    tree.run()
    tree.perform("evil", [Open("b2")])
    tree.run()
    tree.forge("evil", "b2", Attend(0))
    tree.run()
    tree.forge("evil", "b2", Publish(bundle(15, topic="u", guarantee=Guarantee.TOTAL)))
    tree.run()
    check_totals_go_on(tree)


def test_a_broker_that_makes_up_a_later_number_of_a_publisher_stops_no_total() -> None:
    tree = tall_tree()
    tree.forge("b3", "b1", Forward(bundle(20, publisher="ghost", topic="u"), 1))
    tree.run()
    tree.forge("b2", "b0", Submit(bundle(15, publisher="ghost", topic="u", guarantee=Guarantee.TOTAL)))
    tree.run()
    check_totals_go_on(tree)


def test_a_broker_that_makes_up_a_copy_of_a_total_that_has_no_place_yet_stops_no_total() -> None:
    tree = tall_tree()
    forged = bundle(1, publisher="ghost", topic="u", guarantee=Guarantee.TOTAL)
    tree.forge("b3", "b1", TotalCopy(0, 1, forged))
    tree.run()
    tree.ask("p", PublishRequest("u", b"so that the place is taken", Guarantee.TOTAL))
    tree.run()
    tree.forge("b2", "b0", Submit(forged))
    tree.run()
    check_totals_go_on(tree)


def test_a_broker_that_makes_up_a_copy_far_ahead_does_not_make_later_places_look_old() -> None:
    """Found by `python -m tests.fuzz --role member --seed 98020075`. The broker took the place of the copy for the last
    one that was given, so it did not close totals with lower places whose numbers it had seen."""
    tree = tall_tree()
    tree.forge("b3", "b1", TotalCopy(97, 257, bundle(20, publisher="ghost", topic="u", guarantee=Guarantee.TOTAL)))
    tree.forge("b3", "b1", Forward(bundle(40, publisher="ghost", topic="u"), 1))
    tree.run()
    tree.forge("b2", "b0", Submit(bundle(30, publisher="ghost", topic="u", guarantee=Guarantee.TOTAL)))
    tree.run()
    check_totals_go_on(tree)


def test_a_publication_that_waits_and_overlaps_another_costs_its_client_the_session_and_no_broker() -> None:
    """It was taken up when a neighbour said that its side is closed, and the neighbour was cut off for it. Found by
    `python -m tests.fuzz --role client --seed 96504038`."""
    tree = busy_star()
    tree.forge("evil", "b0", Publish(bundle(1, 2)))
    tree.run()
    tree.perform("evil", [Close("b0", "it comes again")])
    tree.run()
    tree.perform("evil", [Open("b0")])
    tree.forge("evil", "b0", Attend(0))
    tree.run()
    tree.ask("p", PublishRequest("t", b"total", Guarantee.TOTAL, ("k",)))
    tree.arrive("p", "b0")
    assert tree.brokers["b0"].parts.totals.pending, "it waits for the other brokers"
    heavy = pack_payloads([bytes(HEAVY_BYTES)] * 3)
    tree.forge("evil", "b0", Publish(bundle(1, 3, keys=("k",), payloads=heavy)))
    tree.run()
    assert [peer for peer, _ in cut_off(tree)] == ["evil"] and "overlaps" in cut_off(tree)[0][1]
    check_the_others_go_on(tree, evil=2)
