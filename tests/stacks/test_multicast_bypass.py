"""A dead broker of a causal multicast is bypassed, whatever the order is; two deaths are beyond it."""

import msgspec
import pytest

from resprout.sim.swarm import try_seed
from resprout.spread.messages import Interested
from resprout.stacks.stack import find_stack
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.multicast.around import BypassTree
from resprout_lab.blocks.multicast.copies import Copy, LinkCopies
from resprout_lab.blocks.multicast.messages import GroupsTold, MulticastMessage
from tests.stacks.multicast_net import OneBroker, crash, row, rules

both = pytest.mark.parametrize("stack", ["cbcast", "causal-barriers"])


@both
@pytest.mark.parametrize("name", ["b0", "b1", "b2", "b3"])
def test_a_broker_that_dies_is_bypassed_and_nothing_is_lost(stack: str, name: str) -> None:
    assert rules(crash(stack, name)) == set(), "clients of the dead broker included"


@both
def test_a_client_that_has_not_taken_everything_is_handed_over_the_rest(
    stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is so far away that all brokers have long had what it lacks when its own one dies."""
    far = tuple([msgspec.structs.replace(client, latency_us=100_000) for client in row().clients])
    scenario = msgspec.structs.replace(crash(stack, "b3"), clients=far)
    assert rules(scenario) == set()
    monkeypatch.setattr(Copy, "done_but_for", lambda self, peer: not self.lacking)
    assert "lost" in rules(scenario), "neighbours had let go what its readers had not taken"


@both
@pytest.mark.parametrize("part", ["_pass_over", "_meet"])
def test_without_the_bypass_the_judge_complains(stack: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BypassTree, part, lambda self, name: None)
    assert rules(crash(stack, "b2"))


@both
def test_without_what_a_dead_broker_owed_the_judge_complains(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkCopies, "end", lambda self, name: [])
    assert rules(crash(stack, "b2"))


@both
def test_two_dead_in_a_row_are_beyond_it_and_the_judge_says_so(stack: str) -> None:
    assert rules(crash(stack, "b1", "b2")) & {"lost", "stuck"}
    found = find_stack(stack)
    assert found.survives(found.options()).faults == 1, "it never said that it would survive this"


def test_a_swarm_strikes_when_the_tree_has_formed_however_long_its_links_are() -> None:
    """Nine in a row, 200 ms each: the seventh was struck before it had its place, and its clients knew nobody else."""
    outcome = try_seed(61057, stack="cbcast")
    assert not outcome.complaint, str(outcome)


@both
def test_a_publication_takes_those_before_it_along_that_no_other_broker_has(stack: str) -> None:
    """The third of a client survived its broker at one neighbour, and the two before it, which only the other neighbour
    wanted, died with the links. They were published again, behind it."""
    assert not try_seed(11, "groups", stack).failed
    net = OneBroker(stack=stack)
    for name, topic in (("b1", "u"), ("b2", "t")):
        net.say(name, Interested(1, topic, None), GroupsTold())
    for topic in ("t", "t", "u", "u"):
        net.publish(topic)
    assert numbers(net, "b2") == [1, 2] and numbers(net, "b1") == [1, 2, 3, 4], "each once"
    net.say("b1", Progress(4, 0, 0))
    net.publish("t")
    assert numbers(net, "b2") == [1, 2, 5], "b1 has the two that b2 does not want"


def numbers(net: OneBroker, name: str) -> list[int]:
    return [one.bundle.first for one in net.said(name, MulticastMessage)]
