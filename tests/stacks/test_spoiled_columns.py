"""A broker on the way spoils what a bundle holds: whoever reads it goes on without it, and blames nobody else.

Brokers pass columns on unread. So the broker that delivers a spoiled one is honest, and the next one would bring it
again: a client that closed the session would do so for ever. Found by `tests.fuzz` (a member, seeds 1039 and 2015).
"""

from typing import Any

import pytest

from resprout.core.bundle import pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.edge.durable_messages import Terms
from resprout.edge.requests import DeliveriesSkipped, DroppedBefore, PublishRequest, SubscribeRequest
from resprout.order.messages import Closed, Forward, Submit
from tests.stacks.test_hostile import bundle, busy_star, check_the_others_go_on
from tests.stacks.tree import Tree

SPOILED: dict[str, dict[str, Any]] = {
    "payloads that are none": {"payloads": b"\xc1"},
    "fewer payloads": {"count": 2, "payloads": pack_payloads([b"!"])},
    "attributes that are none": {"attributes": b"\xc1"},
}


def closed_by_the_honest(tree: Tree) -> list[tuple[str, str, str]]:
    """With each other: the machine of a liar is astonished by the answers."""
    return [one for one in tree.closed if not {"evil", "b1"}.intersection(one[:2])]


@pytest.mark.parametrize("spoiled", SPOILED)
def test_a_client_goes_on_without_what_a_member_has_spoiled(spoiled: str) -> None:
    tree = busy_star()
    tree.forge("b1", "b0", Forward(bundle(publisher="far", stamp=1, **SPOILED[spoiled]), 1))
    tree.run()
    assert closed_by_the_honest(tree) == []
    for client in ("s", "near"):
        [skipped] = [news for news in tree.news[client] if isinstance(news, DeliveriesSkipped)]
        assert "column" in skipped.reason and skipped.count == SPOILED[spoiled].get("count", 1)
    check_the_others_go_on(tree)


def test_a_spoiled_total_has_no_readers_where_its_content_is_asked_for() -> None:
    """The step that delivered it failed, and an honest neighbour was blamed that had only closed its side. Found by
    `tests.fuzz` (seed 98200065)."""
    tree = busy_star()
    tree.ask("p", SubscribeRequest("t", "amount > 1"))
    tree.run()
    spoiled = bundle(publisher="far", stamp=1, guarantee=Guarantee.TOTAL, attributes=b"\xc1")
    tree.forge("b1", "b0", Submit(spoiled))
    tree.forge("b1", "b0", Closed("far", 1, 1, 1))
    for _ in range(2):
        tree.arrive("b1", "b0")
    tree.run()
    assert closed_by_the_honest(tree) == [] and tree.brokers["b0"].parts.totals.pending == 0


def test_a_consumer_goes_on_without_what_a_member_has_spoiled() -> None:
    tree = busy_star()
    tree.consume("w", "b0", "jobs", Terms("t", None, False))
    tree.run()
    tree.forge("b1", "b0", Forward(bundle(publisher="far", stamp=1, payloads=b"\xc1"), 1))
    tree.run()
    assert closed_by_the_honest(tree) == []
    assert [news.count for news in tree.news["w"] if isinstance(news, DroppedBefore)] == [1]
    tree.ask("p", PublishRequest("t", b"after"))
    tree.run()
    assert [message.payload for message in tree.delivered["w"]] == [b"after"]
