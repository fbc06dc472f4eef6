"""What a member of a repair says on its new link of what it has logged since its report."""

from resprout.core.contract import Send
from resprout.core.guarantee import Guarantee
from resprout.edge.broker.ghosts import Ghosts
from resprout.order.messages import Forward
from resprout.order.totals.messages import Closed
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.repair.member import Member
from tests.stacks.test_pool import broker_core, bundle


def log(core: Core, stamp: int, publisher: str, tseq: int = -1) -> None:
    guarantee = Guarantee.CAUSAL if tseq < 0 else Guarantee.TOTAL
    source = core.links["other"] if tseq < 0 else None
    core.forwarding.append(bundle(stamp, publisher, guarantee=guarantee), source, None, 0, False).tseq = tseq


def test_a_total_that_was_delivered_since_the_report_is_closed_at_its_place_among_the_rest() -> None:
    core = broker_core()
    member = Member(core, ClientBook(core, Ghosts(core.sessions, core.log, core.wishes, core.interest.index)))
    log(core, 2, "reported", tseq=1)
    since = core.log.next_no
    log(core, 3, "before")
    log(core, 4, "total", tseq=2)
    log(core, 5, "behind")
    core.peers.came_up("new", 1, 1 << 20)
    core.interest.add_neighbour("new")
    link = core.neighbours.add("new", 1)
    link.cursor = since
    core.out.clear()
    member.close_behind(link, since)
    core.neighbours.open(link)
    said = [effect.message for effect in core.out if isinstance(effect, Send) and effect.peer == "new"]
    ways = [m.bundle.publisher if isinstance(m, Forward) else m for m in said if isinstance(m, Forward | Closed)]
    assert ways == ["before", Closed("total", 1, 1, 3), "behind"]
