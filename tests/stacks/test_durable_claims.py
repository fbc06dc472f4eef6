"""A member says that the durable subscription of a client at another broker is over, or is its own. One message ended
it for good, with all that waited, or sent its consumers to the liar."""

from typing import Any

import msgspec
import pytest

from resprout.edge.durable_messages import Terms
from resprout.overlay.messages import Life
from resprout.stacks.resprout import durable_book
from resprout.stacks.resprout.durable_state import DurableKnown, DurableState
from tests.stacks.test_durable_owners import Guarded
from tests.stacks.test_durable_subscriptions import over, payloads, publish, settle

CLAIMS: dict[str, dict[str, Any]] = {
    "it is over": {"over": True, "base": (), "consumers": ()},
    "it is the liar's": {"home": Life("b0", 1), "owner": "mallory"},
    "it is nobody's": {"home": Life("b9", 1), "owner": ""},
}


def states(network: Guarded) -> list[DurableState]:
    return [broker.parts.client_book.durables.states["orders"] for broker in network.tree.brokers.values()]


@pytest.mark.parametrize("leap", [1, durable_book.TERM_LEAP_MAX])
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_member_neither_ends_nor_takes_what_another_broker_holds(claim: str, leap: int) -> None:
    network = Guarded()
    assert network.consume("alice.w0", "b2", Terms("jobs/#", None, False)) is None
    before = states(network)[0]
    lie = msgspec.structs.replace(before, term=before.term + leap, edition=9, **CLAIMS[claim])
    network.tree.forge("b0", "b1", DurableKnown(lie))
    settle(network.tree)
    assert "orders" in network.tree.brokers["b2"].parts.durables.consumers.held
    for state in states(network)[1:]:
        assert state.home == before.home and state.owner == "alice" and not state.over and state.term > lie.term
    publish(network.tree, 3)
    settle(network.tree)
    assert payloads(network.tree, "alice.w0") == [0, 1, 2] and over(network.tree, "alice.w0") is None


def test_a_member_does_not_raise_the_count_of_homes_so_far_that_nobody_outdoes_it() -> None:
    network = Guarded()
    assert network.consume("alice.w0", "b2", Terms("jobs/#", None, False)) is None
    before = states(network)[0]
    lie = msgspec.structs.replace(before, term=1 << 53, home=Life("b0", 1))
    network.tree.forge("b0", "b1", DurableKnown(lie))
    settle(network.tree)
    assert [state.home.name for state in states(network)[1:]] == ["b2", "b2"]
