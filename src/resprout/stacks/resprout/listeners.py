"""Who listens where: the clients with subscriptions that each neighbour stands for.

Whoever repairs a dead broker keeps everything for its clients until they return. To know when all of them have,
somebody must know who they were, so every broker tells its neighbours. A client is told of before its subscriptions are
asked for, on the same links; when one of those is confirmed, all neighbours know the client. One that has no confirmed
subscription is owed nothing, and need not be waited for.

A broker also stands for the clients that its ghosts wait for. Where nobody is left who knew the clients of a dead
broker, the ghost waits for a client that does not exist, until it expires.
"""

from collections.abc import Iterable, Iterator

from resprout.core.contract import ProtocolMessage
from resprout.edge.ghosts import Ghosts
from resprout.order.link import Link
from resprout.stacks.resprout.core import Core
from resprout.stacks.resprout.messages import PART_ITEMS, ListenersChanged
from resprout.stacks.resprout.pack import pack_listeners
from resprout.stacks.resprout.parcels import Parcel


class ListenerBook:
    def __init__(self, core: Core, ghosts: Ghosts) -> None:
        self._core = core
        self._ghosts = ghosts
        self._mine: dict[str, None] = {}
        """As the neighbours were told."""
        self._of: dict[str, set[str]] = {}
        """By neighbour."""

    # -- here ----------------------------------------------------------------------------------------------------------

    def came(self, name: str) -> None:
        """A client is about to have its first subscription here."""
        self._change([name], ())

    def check(self, names: Iterable[str]) -> None:
        """Something has become of these clients, or of the ghosts that wait for them."""
        stands = {name: self._stands_for(name) for name in names}
        self._change([n for n, does in stands.items() if does], [n for n, does in stands.items() if not does])

    def _stands_for(self, name: str) -> bool:
        guest = self._core.guests.get(name)
        return (guest is not None and guest.attending and bool(guest.subscriptions)) or self._ghosts.awaits(name)

    def _change(self, came: Iterable[str], went: Iterable[str]) -> None:
        came = [name for name in came if name not in self._mine]
        went = [name for name in went if name in self._mine]
        self._mine.update(dict.fromkeys(came))
        for name in went:
            del self._mine[name]
        for start in range(0, max(len(came), len(went)), PART_ITEMS):
            end = start + PART_ITEMS
            news = ListenersChanged(tuple(came[start:end]), tuple(went[start:end]))
            self._core.says.extend([(name, news) for name in self._core.links])

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def changed(self, link: Link, message: ListenersChanged) -> None:
        names = self._of.setdefault(link.name, set())
        names.difference_update(message.went)
        names.update(message.came)

    def handed_over(self, dead: str | None = None) -> Iterator[ProtocolMessage]:
        """For a parcel: who listens here, and who did at a dead neighbour."""
        yield from pack_listeners(self._core.seat.name, self._mine)
        if dead is not None:
            yield from pack_listeners(dead, self._of.get(dead, ()))

    def meet(self, neighbour: str, parcel: Parcel) -> None:
        """The first word of a new neighbour."""
        self._of[neighbour] = parcel.listeners.get(neighbour, set())

    def lost(self, name: str) -> set[str]:
        """A neighbour is replaced by others: whom it stood for."""
        return self._of.pop(name, set())
