"""Who of a site speaks with which neighbouring site, where they share the load: the seed's section 7.

With `links`, one broker has the way to the parent, the others those to the children, in turn. With `random`, each way
falls to one of them by chance, drawn anew by each leader: the probabilistic load balancer that the report names. A
broker that the leader does not hear has none.
"""

from collections.abc import Callable
from zlib import crc32

from resprout_lab.sites.state import SiteState


def gateways_for(
    state: SiteState, sharing: str, is_unheard: Callable[[str], bool], leader: str
) -> tuple[tuple[str, str], ...]:
    """(site, life) for every link, as this leader would have it; none where it speaks with all of them itself."""
    if sharing == "leader":
        return ()
    lives = [broker.life for broker in state.brokers.values() if not is_unheard(broker.name)]
    if sharing == "random":  # by a checksum: a leader that looks again draws the same
        return tuple([(site, lives[crc32(f"{leader} {site}".encode()) % len(lives)]) for site in state.links])
    first, others = lives[:1], lives[1:] or lives
    children = [site for site in state.links if site != state.parent]
    ways = [(site, others[place % len(others)]) for place, site in enumerate(children)]
    return (*((state.parent, life) for life in first if state.parent), *ways)
