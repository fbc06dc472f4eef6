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
from resprout.stacks.stack import Stack
from resprout.core.guarantee import Guarantee

SITES = Stack(
    name="sites",
    guarantees=tuple(Guarantee),
    options=SitesOptions,
    messages=CLIENT_MESSAGES + ALL_SITES_MESSAGES,
    make_broker=SitesBroker,
    offers=offered,
    receipts=RECEIPTS,
)
