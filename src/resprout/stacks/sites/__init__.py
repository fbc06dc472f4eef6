from resprout.edge.messages import CLIENT_MESSAGES
from resprout.replicas.messages import MESSAGES as REPLICA_MESSAGES
from resprout.stacks.families import Family
from resprout.stacks.sites.broker import SitesBroker
from resprout.stacks.sites.clients import RECEIPTS, offered
from resprout.stacks.sites.messages import (
    ALL_SITES_MESSAGES,
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
)
from resprout.stacks.sites.options import SitesOptions
from resprout.stacks.stack import Stack, WaitTimes
from resprout.stacks.survival import Survival
from resprout.core.guarantee import Guarantee

SITES = Stack(
    name="sites",
    guarantees=tuple(Guarantee),
    options=SitesOptions,
    messages=CLIENT_MESSAGES + ALL_SITES_MESSAGES,
    make_broker=SitesBroker,
    offers=offered,
    receipts=RECEIPTS,
    waits=lambda options: WaitTimes(death_us=3 * options.patience_us, return_us=options.return_us),
    survives=lambda options: Survival(
        (options.replicas - 1) // 2, each_site=True, silent_hosts=True, freezes=True, cuts=True, partitions=True,
        recovers_with_disk=True, recovers_without_disk=True, returns_early=True, again=True,
    ),
    site_brokers=lambda options: options.replicas,
    drawn={
        "order": ("none", "fifo", "total", "total"),
        "routing": ("flooding", "filtering"),
        "sharing": ("leader", "links"),
    },
)
