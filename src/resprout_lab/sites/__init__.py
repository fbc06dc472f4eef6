"""Sites: a tree of sites; the brokers of a site decide everything by majority before it takes effect.

*The document.* Seed 003: Luis Neves, Pedro do Vale and Ricardo Abreu, "Distributed and Reliable Publish-Subscribe
System", Instituto Superior Técnico, 2015/16: a report on a system with three brokers per site, routing by flooding or
filtering, no order, FIFO or total order, one crash per site, and leaders that freeze and wake up. docs/stacks/sites.md
has a table of its terms and one of departures.

*A site* (`SiteState`, `Agreement`) is one state that its brokers replicate: a log decides commands in one order, by
majority (`Replica`, Multi-Paxos), and each broker applies them. Publications, subscriptions, messages from neighbouring
sites and their acknowledgements are all commands. One broker leads, by terms.

*The tree of sites* (`Gateways`). A message for a neighbouring site is part of the state, with a number, and with the
number before it on the same link. The leader sends it, once it is decided, to the leader there, where it becomes a
command; duplicates are detected by number. So a new leader sends again what the last one may have sent, and each
message takes effect once. Both sides tell all brokers of the other one who speaks for them, since which term, and
refuse older ones.

*Order.* `order = "total"`: publications go up to the root site, whose log is the sequencer, and come down in that
order: all four guarantees. `"fifo"`, `"none"`: they are ordered in the log of the site where they are published, and go
on along the tree. The site that orders a publication expects the next number of its publisher (`SiteIntake`).

*Routing.* `"flooding"`: everywhere. `"filtering"`: a subscription goes to the neighbouring sites through which matching
publications may come, and is confirmed when it is known wherever it must be. It is withdrawn when nobody behind it has
it any more (`SiteWishes`).

*Clients* (`SiteClients`) are served by any broker of their site, and turn to another when theirs is gone. All brokers
of the site keep what they may still need until each has reported that its own clients have it.

*Brokers and lives* (`SiteMembership`). The configuration names the brokers of each site, and the site above. A broker
that begins another life takes the place of the old one, by a decision of the site. With its disk it is the same member
of the log; without, it is another one, and gets the state from the others.

*Receipts.* `accepted`: the client's broker has it. `safe`: its site has decided it, that is, a majority of its brokers
has it. `delivered` is never sent.

*Faults.* One broker of each site may be down at a time (a minority of `replicas`), in any number of sites: crashed,
with or without a report of its host, frozen, cut off. It may return at any time. Links may break, also between sites.
A site that loses its majority waits until a majority is back with its disks. Not survived: the loss of the disks of a
majority. Total order needs the root site.

*Corrections* A1 to A6 and all departures, known errors among them, are in docs/stacks/sites.md.

*Assumption*, beside the report's: a broker without a site is a site by itself, and survives nothing.
"""

from resprout.core.guarantee import Guarantee
from resprout.edge.messages import CLIENT_MESSAGES
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.stacks.stack import Family, Stack, Survival, WaitTimes
from resprout_lab.sites.broker import SitesBroker
from resprout_lab.sites.clients import RECEIPTS, offered
from resprout_lab.sites.messages import (
    SITES_MESSAGES,
    Proposal,
    SiteCarries,
    SiteHas,
    SiteLed,
    SiteMember,
    SiteNotes,
    SiteWants,
    SiteWantsNot,
)  # fmt: skip
from resprout_lab.sites.options import SitesOptions

_MAJORITY = "a site that lost most of its disks has lost what only it had, and all that goes through it waits"


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
        Family.MEMBERSHIP: (SiteLed, SiteMember),
        Family.CLIENTS: CLIENT_MESSAGES,
    },
    waits=lambda options: WaitTimes(death_us=3 * options.patience_us, return_us=options.return_us),
    survives=_survives,
    keeps_records=lambda options: options.durable,
    site_brokers=lambda options: options.replicas,
    drawn={
        "order": ("none", "fifo", "total", "total"),
        "routing": ("flooding", "filtering"),
        "sharing": ("leader", "links", "random"),
    },
    known_limits={"lost": _MAJORITY},
)
