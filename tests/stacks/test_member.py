"""What a member of a repair says on its new link of what it has logged since its report."""

from resprout.core.contract import Send
from resprout.core.guarantee import Guarantee
from resprout.order.messages import Closed, Forward
from resprout.stacks.resprout.parts import BrokerParts
from tests.stacks.test_pool import broker_parts, bundle


def log(parts: BrokerParts, stamp: int, publisher: str, tseq: int = -1) -> None:
    guarantee = Guarantee.CAUSAL if tseq < 0 else Guarantee.TOTAL
    source = parts.links["other"] if tseq < 0 else None
    parts.forwarding.append(bundle(stamp, publisher, guarantee=guarantee), source, None, 0, False).tseq = tseq


def test_a_total_that_was_delivered_since_the_report_is_closed_at_its_place_among_the_rest() -> None:
    parts = broker_parts()
    log(parts, 2, "reported", tseq=1)
    since = parts.log.next_no
    log(parts, 3, "before")
    log(parts, 4, "total", tseq=2)
    log(parts, 5, "behind")
    parts.peers.came_up("new", 1, 1 << 20)
    link = parts.neighbours.begin_links({"new": 1}, {})["new"]
    link.cursor = since
    parts.life.out.clear()
    parts.member.close_behind(link, since)
    parts.neighbours.open(link)
    said = [effect.message for effect in parts.life.out if isinstance(effect, Send) and effect.peer == "new"]
    ways = [m.bundle.publisher if isinstance(m, Forward) else m for m in said if isinstance(m, Forward | Closed)]
    assert ways == ["before", Closed("total", 1, 1, 3), "behind"]
