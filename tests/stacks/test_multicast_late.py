"""What comes around a dead broker, not wanted when that one had it: readers here may have what depends on it.

Three rules keep it from them, each for what the others do not see, and a fourth puts it in its place for clients of the
dead broker. Found by the swarm: clients subscribed while others published.
"""

import pytest

from resprout.core.contract import LinkUp, Silent
from resprout.core.message_fields import Mark
from resprout.edge.messages import Attend, HeldSubscription, Subscribe, Subscribed
from resprout.overlay.messages import Place
from resprout.sim.swarm import try_seed
from resprout.spread.messages import InterestConfirmed, Interested
from resprout_lab.blocks.multicast.messages import Flushed, NotOwed
from resprout_lab.blocks.tree import PlacesNear
from resprout_lab.cbcast.broker import Multicast
from tests.stacks.multicast_net import ANSWER, FIRST, ROOM, OneBroker, message
from tests.stacks.test_cbcast_bypass import beside

LATER = message("x", "b7/1", (("u", (("b7/1", 1),)),), topic="u", first=2)
"""It depends on the first, and does not name it: the header between them went elsewhere."""
NAMED = (("t", (("b7/1", 1),)),)


def die(net: OneBroker) -> None:
    """`b1` dies, and `b6` has the first message."""
    net.step(Silent("b1", refused=True))
    for name in ("b5", "b6"):
        net.step(LinkUp(name, "broker", 1, ROOM))
    net.say("b6", FIRST, Flushed("b1"))
    net.say("b5", Flushed("b1"))


@pytest.mark.parametrize("seed", [310200077, 310200203, 310200300, 310200451, 311000367])
@pytest.mark.parametrize("stack", ["cbcast", "causal-barriers"])
def test_found_by_the_swarm(stack: str, seed: int) -> None:
    outcome = try_seed(seed, "faults" if seed == 310200300 else "groups", stack)
    assert not outcome.failed, outcome.report


def test_what_was_owed_and_died_on_its_way_is_shown() -> None:
    net = beside()
    net.say("b1", NotOwed((("t", (("b8/1", 7),)),)))
    die(net)
    assert net.shown() == [("x", 1)]


def test_what_was_skipped_on_the_link_is_not_shown_and_goes_to_others_around_the_dead() -> None:
    net = beside()
    net.say("b1", _skipping(ANSWER))
    die(net)
    assert net.shown() == [("y", 1)]
    assert ("x", 1) in [(one.bundle.publisher, one.bundle.first) for one in net.said("b5", Multicast)]
    assert not net.said("b2", Multicast)[1:], "behind which nobody was owed it either"


def test_what_passed_before_the_dead_recorded_a_subscription_is_not_shown() -> None:
    """No header named it here; the dead one said so itself, before it confirmed the subscription."""
    net = beside()
    net.say("b1", LATER, NotOwed(NAMED))
    die(net)
    assert net.shown() == [("x", 2)]


def test_what_only_a_subscription_wants_that_the_dead_had_not_confirmed_is_not_shown() -> None:
    net = OneBroker()
    net.say("b1", *[InterestConfirmed(ask.id) for ask in net.said("b1", Interested) if ask.filter == "u"])
    net.say("b1", PlacesNear((Place("b1", 1, 1, None, ("b0", "b5", "b6"), ""),)), LATER)
    die(net)
    assert net.shown() == [("x", 2)]


def test_a_neighbour_hears_what_it_is_not_owed_before_its_subscription_is_confirmed() -> None:
    net = OneBroker()
    net.confirm("b1")
    net.say("b1", FIRST)
    for number, topic in ((1, "t"), (2, "v")):
        net.say("b2", Interested(number, topic, None))
        net.confirm("b1")
    said = [one for one in net.said("b2", object) if isinstance(one, NotOwed | InterestConfirmed)]
    assert said == [NotOwed(NAMED), InterestConfirmed(1), InterestConfirmed(2)], "the second time nothing has changed"


def test_a_client_is_told_how_far_publishers_had_come_when_its_subscription_was_confirmed() -> None:
    """Wherever it goes on, it is not handed over what was before."""
    net = OneBroker()
    net.confirm("b2")
    net.say("b1", FIRST)
    net.say("s", Subscribe(3, "v", None))
    net.confirm("b1")
    net.say("b2", *[InterestConfirmed(ask.id) for ask in net.said("b2", Interested) if ask.filter == "v"])
    assert [one.base for one in net.said("s", Subscribed) if one.id == 3] == [(Mark("x", "ordered", 1, 1),)]


def test_clients_of_the_dead_are_handed_over_what_is_late_before_what_depends_on_it() -> None:
    net = beside()
    net.say("b1", _skipping(ANSWER))
    die(net)
    net.step(LinkUp("r", "client", 1, ROOM))
    held = tuple([HeldSubscription(no, topic, None, ()) for no, topic in enumerate(("t", "u"), 1)])
    net.say("r", Attend(0, tried=("b1",), home=1, subscriptions=held))
    assert net.shown("r") == [("x", 1), ("y", 1)]


def test_late_ones_stand_before_those_that_depend_on_them_through_others() -> None:
    """Seed 311000367 of causal-barriers: what was shown here named the answer, and not what that had answered."""
    net = beside()
    net.say("b1", _skipping(message("z", "b9/1", (("u", (("b9/1", 1),)), ("v", (("b8/1", 1),))), topic="u"), 1))
    net.say("b1", NotOwed(NAMED))
    net.step(Silent("b1", refused=True))
    for name in ("b5", "b6"):
        net.step(LinkUp(name, "broker", 1, ROOM))
    answer = message("y", "b8/1", (("t", (("b7/1", 1),)), ("v", (("b8/1", 1),))), topic="v")
    net.say("b6", FIRST, answer, Flushed("b1"))
    net.say("b5", Flushed("b1"))
    net.step(LinkUp("r", "client", 1, ROOM))
    net.say("r", Attend(0, tried=("b1",), home=1, subscriptions=(HeldSubscription(1, "#", None, ()),)))
    assert net.shown("r") == [("x", 1), ("y", 1), ("z", 1)]


def _skipping(answer: Multicast, place: int = 0) -> Multicast:
    return Multicast(answer.bundle, answer.hops, answer.sender, (place,), answer.clocks)
