"""Holds back the sources of a full log; see `order.log` for what counts against whom."""

from resprout.core.contract import Effect, Hold, Release
from resprout.edge.broker.session import ClientSession
from resprout.order.link import Link
from resprout.order.log import Log


class BackPressure:
    """A source is held when too much of its waits, and released at half of that."""

    __slots__ = ("_bytes_max", "_guests", "_links", "_log")

    def __init__(self, log: Log, bytes_max: int) -> None:
        self._log = log
        self._bytes_max = bytes_max
        self._links: dict[str, Link] = {}
        self._guests: dict[str, ClientSession] = {}

    @property
    def holding(self) -> tuple[str, ...]:
        """Who is held back now."""
        return (*self._links, *self._guests)

    def check_link(self, link: Link, out: list[Effect]) -> None:
        if link.held_bytes > self._bytes_max and link.name not in self._links:
            self._links[link.name] = link
            out.append(Hold(link.name))

    def check_guest(self, guest: ClientSession, out: list[Effect]) -> None:
        """All local publishers share one account: whoever publishes while it is exceeded is held."""
        if self._log.local_bytes > self._bytes_max and guest.name not in self._guests:
            self._guests[guest.name] = guest
            out.append(Hold(guest.name))

    def forget(self, name: str) -> None:
        """The session is over, and its hold with it."""
        self._links.pop(name, None)
        self._guests.pop(name, None)

    def release(self, out: list[Effect]) -> None:
        """At the end of a step."""
        low = self._bytes_max // 2
        if self._links:
            for link in [link for link in self._links.values() if link.held_bytes < low]:
                del self._links[link.name]
                out.append(Release(link.name))
        if self._guests and self._log.local_bytes < low:
            out.extend(Release(name) for name in self._guests)
            self._guests.clear()
