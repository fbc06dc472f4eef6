"""Sites: a tree of sites, each of which is three brokers that agree on everything before anybody hears of it.

*The document.* Neves, do Vale and Abreu, "Distributed and Reliable Publish-Subscribe System" (2015): a report on a
system with three brokers per site, routing by flooding or filtering, no order, FIFO or total order, one crash per site,
and leaders that freeze and wake up. It names what it did not finish (its sections 7 and 8); that is finished here.

*A site* (`state`, `agreement`) is one state that its brokers hold alike: a log decides commands in one order, by
majority (`replicas`, Multi-Paxos), and each broker applies them. Publications, subscriptions, what came from
neighbouring sites and what they have: all are commands. One broker leads, as the report has it, by terms.

*The tree of sites* (`gateway`). Whatever a site has for a neighbour stands in its state, with a number, and with the
number before it on the same link. The leader sends it, once it is decided, to the leader there, where it becomes a
command; its number tells a repeat. So what a leader may have sent before it died, the next one sends again, and each
thing happens once. Both sides tell all brokers of the other one who speaks for them, since which term, and refuse older
ones.

*Order.* `order = "total"`: what is published goes up to the root site, whose log is the sequencer, and comes down in
that order: all four guarantees. `"fifo"`, `"none"`: it is placed in the log of the site where it is published, and goes
on along the tree. The site that gives a publication its place expects the next number of its publisher (`intake`).

*Routing.* `"flooding"`: everywhere. `"filtering"`: a subscription is asked of the neighbouring sites through which
something may come, and confirmed when it is known wherever it must be; it is withdrawn when nobody behind it has it
any more (`wishes`).

*Clients* (`clients`) are served by any broker of their site, and turn to another when theirs is gone. What they may
still need is kept by all brokers of the site until each has said that its own clients have it.

*Lives* (`forming`). A broker that begins another life takes the place of the old one, by a decision of the site, and is
told the state by the others; nothing is on disk.

*Receipts.* `accepted`: its broker has it. `safe`: its site has decided it, that is, most of its brokers have it.
`delivered` would need answers from everybody, and is never said.

*Faults.* One broker of each site may be down at a time (a minority of `replicas`), in any number of sites: crashed,
with or without a word from its host, frozen, cut off. It may return at any time. Links may break, also between sites.
Not survived: a majority of a site; deaths while the network forms. The root site is needed for total order.

*Corrections* A1 to A6 to the report, with their tests, are in `docs/stacks/sites.md`.

*Departures.* The report's clients send everything to three brokers and take part in elections by accusing; here they
talk to one, and brokers of the site alone decide (A6). Freezing is not simulated by a flag: a process stops, and what
it says afterwards is refused by ballots and terms. Events are not renumbered for each link, and no empty updates are
sent (A5). `sharing = "links"` is the load balancing of its section 7 by links: one broker for the parent, the others
for the children. In `"none"`, too, publications of one client stay in order, because clients that return tell by
their last numbers what they have; it is only not promised.

*Assumptions*, beside the report's: the first broker of a site names one of the parent site, the others name the first
one. A broker without a site is a site by itself, and survives nothing.
"""

from resprout.core.guarantee import Guarantee
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.stacks.families import Family
from resprout.stacks.stack import Stack, WaitTimes
from resprout.stacks.survival import Survival
from resprout_lab.sites.broker import SitesBroker
from resprout_lab.sites.clients import RECEIPTS, offered
from resprout_lab.sites.messages import (
    SITES_MESSAGES,
    Proposal,
    SiteAnswer,
    SiteCarries,
    SiteFormed,
    SiteHas,
    SiteJoin,
    SiteLed,
    SiteNotes,
    SiteWants,
    SiteWantsNot,
)  # fmt: skip
from resprout_lab.sites.options import SitesOptions

_MAJORITY = "a site that lost most of its brokers has lost what only it had, and all that goes through it waits"


def _survives(options: SitesOptions) -> Survival:
    return Survival(
        (options.replicas - 1) // 2, each_site=True, silent_hosts=True, freezes=True, cuts=True, partitions=True,
        recovers_with_disk=True, recovers_without_disk=True, returns_early=True, again=True,
    )  # fmt: skip


SITES = Stack(
    name="sites",
    guarantees=tuple(Guarantee),
    options=SitesOptions,
    messages=(*CLIENT_MESSAGES, *REPLICA_MESSAGES, *SITES_MESSAGES),
    make_broker=SitesBroker,
    offers=offered,
    receipts=RECEIPTS,
    families={
        Family.PUBLICATIONS: (*REPLICA_MESSAGES, Proposal, SiteCarries),
        Family.REPORTS: (SiteHas,),
        Family.SUBSCRIPTIONS: (SiteWants, SiteWantsNot, SiteNotes),
        Family.MEMBERSHIP: (SiteJoin, SiteAnswer, SiteFormed, SiteLed),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    waits=lambda options: WaitTimes(death_us=3 * options.patience_us, return_us=options.return_us),
    survives=_survives,
    site_brokers=lambda options: options.replicas,
    drawn={
        "order": ("none", "fifo", "total", "total"),
        "routing": ("flooding", "filtering"),
        "sharing": ("leader", "links"),
    },
    known_limits={"lost": _MAJORITY},
)
