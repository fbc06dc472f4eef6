"""What a broker says of itself to people and monitors.

The tree is one of sites: the parent of a leader is a broker of the site above, that of the others is their leader.
"""

import msgspec

from resprout.stacks.status import MemberSeen, StackStatus
from resprout_lab.sites.commands import name_of
from resprout_lab.sites.forming import SiteForming
from resprout_lab.sites.state import SiteState


def status_of(name: str, site: str, state: SiteState, forming: SiteForming, is_ready: bool) -> StackStatus:
    mates = [broker for broker in state.brokers.values() if broker.name != name]
    beside = [broker for link in state.links.values() for broker in link.brokers]
    leader = name_of(state.leader) if state.leader else None
    above = state.links.get(state.parent)
    if leader is not None and leader != name:
        parent: str | None = leader
    else:
        parent = above.brokers[0].name if above is not None and above.brokers else None
    return StackStatus(
        is_ready,
        parent if state.brokers else msgspec.UNSET,
        tuple(dict.fromkeys([broker.name for broker in (*mates, *beside)])),
        tuple([MemberSeen(broker.name, broker.incarnation, broker.address) for broker in (*mates, *beside)]),
        tuple([broker.name for broker in mates if forming.is_unheard(broker.name)]),
        site=site,
        roles=_roles(name, site, state),
        log_bundles=len(state.recent),
    )


def _roles(name: str, site: str, state: SiteState) -> tuple[str, ...]:
    """As the site has decided: an old leader that was cut off does not know better."""
    if not state.leader or name_of(state.leader) != name:
        return ()
    sequences = state.is_total and not state.parent
    return (f"leads the site {site} since term {state.term}", *(["orders all publications"] if sequences else []))
