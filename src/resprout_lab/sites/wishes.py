"""What is wanted in a site and beyond each of its links, as all brokers of the site know it.

A wish is asked of the neighbouring sites through which something that matches may come: with one order for all, that is
the site above; otherwise it is all but the one that asked. It is noted when they have noted it. A wish that nobody has
any more is withdrawn, so routes end with the subscriptions that made them.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import msgspec

from resprout.core.bundle import Bundle
from resprout.filters.predicate import Predicate, parse_predicate
from resprout_lab.blocks.subscriptions import Subscriptions
from resprout_lab.sites.commands import Freight, Noted, SiteWish, Unwanted, Wanted


class AskedSite(msgspec.Struct, array_like=True):
    """A wish, as a neighbouring site was asked for it."""

    ask: int
    noted: bool = False


class WishLink(Protocol):
    """What a neighbouring site was asked for, and what it wants."""

    asked: dict[SiteWish, AskedSite]
    theirs: dict[int, SiteWish]


class SiteWishes:
    def __init__(
        self,
        links: Mapping[str, WishLink],
        holders: dict[SiteWish, dict[str, int]],
        waiting: dict[SiteWish, dict[str, None]],
        askable: Callable[[], Collection[str]],
        ship: Callable[[str, Freight], int],
        confirmed: Callable[[str, SiteWish], None],
    ) -> None:
        """The first three are fields of the state of the site. `askable`: the sites that are asked. `ship` sends
        something to a site, under the number that it returns; `confirmed` is told of lives whose wish is noted."""
        self._links = links
        self.holders = holders
        self._open = waiting
        self._askable = askable
        self._ship = ship
        self._confirmed = confirmed
        self._table = Subscriptions()
        for site, link in links.items():
            for wish in link.theirs.values():
                self._table.add(site, wish, predicate_of(wish))

    def sites_for(self, bundle: Bundle) -> Collection[str]:
        """The neighbouring sites that want some of it."""
        return self._table.matches(bundle)

    # -- changes -------------------------------------------------------------------------------------------------------

    def meet(self) -> None:
        """There is another neighbouring site."""
        for wish in list(self.holders):
            self._ask(wish)

    def want(self, holder: str, wish: SiteWish, ask: int = 0) -> None:
        if holder in self._links:
            self._links[holder].theirs[ask] = wish
            self._table.add(holder, wish, predicate_of(wish))
        self.holders.setdefault(wish, {})[holder] = ask
        self._open.setdefault(wish, {})[holder] = None
        self._ask(wish)
        self._check(wish)

    def drop(self, holder: str, wish: SiteWish) -> None:
        holders = self.holders.get(wish, {})
        if holder not in holders:
            return
        if holder in self._links:
            del self._links[holder].theirs[holders[holder]]
            self._table.remove(holder, wish)
        del holders[holder]
        self._open.get(wish, {}).pop(holder, None)
        if not holders:
            del self.holders[wish]
            self._open.pop(wish, None)
        for site, link in self._links.items():
            if wish in link.asked and not self._is_wanted_beyond(site, wish):
                self._ship(site, Unwanted(link.asked.pop(wish).ask))

    def drop_ask(self, site: str, ask: int) -> None:
        wish = self._links[site].theirs.get(ask)
        if wish is not None:
            self.drop(site, wish)

    def drop_all(self, holder: str) -> None:
        for wish in [wish for wish, holders in self.holders.items() if holder in holders]:
            self.drop(holder, wish)

    def noted(self, site: str, ask: int) -> None:
        for wish, asked in self._links[site].asked.items():
            if asked.ask == ask:
                asked.noted = True
                self._check(wish)
                return

    # -- inside --------------------------------------------------------------------------------------------------------

    def _is_wanted_beyond(self, site: str, wish: SiteWish) -> bool:
        return any(holder != site for holder in self.holders.get(wish, ()))

    def _ask(self, wish: SiteWish) -> None:
        for site in self._askable():
            asked = self._links[site].asked
            if wish not in asked and self._is_wanted_beyond(site, wish):
                asked[wish] = AskedSite(self._ship(site, Wanted(wish)))

    def _check(self, wish: SiteWish) -> None:
        waiting = self._open.get(wish, {})
        for holder in list(waiting):
            others = [self._links[site].asked.get(wish) for site in self._askable() if site != holder]
            if all(asked is not None and asked.noted for asked in others):
                del waiting[holder]
                if holder in self._links:
                    self._ship(holder, Noted(self.holders[wish][holder]))
                else:
                    self._confirmed(holder, wish)
        if not waiting:
            self._open.pop(wish, None)


def predicate_of(wish: SiteWish) -> Predicate:
    return parse_predicate(wish.filter, wish.where)


def wish_of(predicate: Predicate) -> SiteWish:
    return SiteWish(predicate.filter, predicate.where_text)
