"""Who of a site speaks with which neighbouring site, where they share the load: the seed's section 7.

One broker has the way to the parent, the others those to the children, in turn. Whoever is not heard by the leader has
none.
"""

from collections.abc import Callable

from resprout_lab.sites.state import SiteState


def gateways_for(state: SiteState, sharing: str, is_unheard: Callable[[str], bool]) -> tuple[tuple[str, str], ...]:
    """(site, life) for every link, as the leader would have it; none where it speaks with all of them itself."""
    if sharing == "leader":
        return ()
    lives = [broker.life for broker in state.brokers.values() if not is_unheard(broker.name)]
    first, others = lives[:1], lives[1:] or lives
    children = [site for site in state.links if site != state.parent]
    ways = [(site, others[place % len(others)]) for place, site in enumerate(children)]
    return (*((state.parent, life) for life in first if state.parent), *ways)
