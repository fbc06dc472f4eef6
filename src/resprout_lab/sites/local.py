"""What the clients of one broker want: together it is one wish of the site's (`wishes`), counted here.

With flooding everything comes anyway, and a wish is confirmed at once. A client that is gone may return, to any broker
of the site: what it wants goes on being wanted here for a while.
"""

from collections.abc import Callable, Iterable

from resprout.core.bundle import Origin
from resprout.core.message_fields import Reached
from resprout.filters.predicate import Predicate
from resprout_lab.blocks.recorded import Recorded
from resprout_lab.blocks.subscriptions import Subscriptions
from resprout_lab.sites.agreement import Agreement
from resprout_lab.sites.commands import SiteWish, Wishing
from resprout_lab.sites.wishes import predicate_of, wish_of


class SharedWishes:
    """For sessions of clients, `ports.SubscriptionPort`."""

    def __init__(self, agreement: Agreement, base: Callable[[], dict[Origin, Reached]]) -> None:
        self._agreement = agreement
        self._base = base
        self.table = Subscriptions()
        self._users: dict[Predicate, dict[str, None]] = {}
        """By predicate: clients, and those that are gone (`keep`)."""
        self._asked: dict[Predicate, int] = {}
        """The number of the command by which it was asked for last."""
        self._noted: dict[Predicate, None] = {}
        self._waiting: dict[Predicate, dict[str, None]] = {}

    # -- of sessions ---------------------------------------------------------------------------------------------------

    def want(self, client: str, predicate: Predicate, confirmed: bool = False) -> list[Recorded]:
        self.table.add(client, predicate, predicate)
        waits = self._agreement.state.is_filtering and predicate not in self._noted
        if waits and not confirmed:
            self._waiting.setdefault(predicate, {})[client] = None
        self._use(client, predicate)  # where a site is one broker, it is noted within this call
        return [] if waits or confirmed else [Recorded(client, predicate, self._base())]

    def drop(self, client: str, predicate: Predicate) -> list[Recorded]:
        self.table.remove(client, predicate)
        self._waiting.get(predicate, {}).pop(client, None)
        self._disuse(client, predicate)
        return []

    def drop_all(self, client: str) -> list[Recorded]:
        for predicate in self.table.of(client):
            self.drop(client, predicate)
        return []

    # -- of clients that are gone --------------------------------------------------------------------------------------

    def keep(self, client: str, predicates: Iterable[Predicate]) -> None:
        for predicate in predicates:
            self._use(f"~{client}", predicate)

    def let_go(self, client: str, predicates: Iterable[Predicate]) -> None:
        for predicate in predicates:
            self._disuse(f"~{client}", predicate)

    # -- of the site ---------------------------------------------------------------------------------------------------

    def noted(self, wish: SiteWish) -> list[Recorded]:
        """It is known wherever it must be, unless it was withdrawn and asked for again meanwhile."""
        predicate = predicate_of(wish)
        agreement = self._agreement
        asked = self._asked.get(predicate)
        if asked is None or agreement.state.nos.get(agreement.life, 0) < asked:
            return []
        self._noted[predicate] = None
        return [Recorded(client, predicate, self._base()) for client in self._waiting.pop(predicate, {})]

    def _use(self, user: str, predicate: Predicate) -> None:
        users = self._users.setdefault(predicate, {})
        users[user] = None
        if len(users) == 1 and self._agreement.state.is_filtering:
            self._asked[predicate] = no = self._agreement.next_no()
            self._propose(no, predicate, wanted=True)

    def _disuse(self, user: str, predicate: Predicate) -> None:
        users = self._users[predicate]
        users.pop(user, None)
        if not users:
            del self._users[predicate]
            self._waiting.pop(predicate, None)
            self._noted.pop(predicate, None)
            if self._asked.pop(predicate, None) is not None:
                self._propose(self._agreement.next_no(), predicate, wanted=False)

    def _propose(self, no: int, predicate: Predicate, wanted: bool) -> None:
        self._agreement.propose(Wishing(self._agreement.life, no, wish_of(predicate), wanted))
