"""The sessions of one node, with or without a connection, and what the stack has yet to hear of them.

What the stack has to hear is put on `news`, and `Links` tells it when the stack is not in the middle of something. A
session that has begun is `up` only once the stack has heard of it.

`Refusals` reports which peers a node has turned away, and because of which limit: once, and then how many more, so that
a peer that connects a thousand times a second does not fill the log as well.
"""

from typing import Final

from resprout.core.contract import (
    CancelTimer,
    Congested,
    Disconnect,
    Effect,
    EndCause,
    EndCode,
    Heard,
    LinkDown,
    Note,
    SetTimer,
    Silent,
    Transmit,
    Writable,
)
from resprout.links.flight import Beginnings, shares
from resprout.links.frames import Goodbye, LingerOver
from resprout.links.handshake import Acquaintances, Identity
from resprout.links.link import LinkSession
from resprout.links.options import LinkOptions

Effects = list[Effect]
News = LinkDown | Silent | Heard | Writable | Congested | LinkSession
"""A `LinkSession` means that this session has begun (`LinkUp`)."""

REASONS_MAX: Final = 64
OTHER_REASONS: Final = "something else"
"""Reasons are a few texts. Should there be more of them after all, the rest is counted together."""

PERIOD_US: Final = 10_000_000
"""For each reason there is at most one line in so long."""
TURNED_AWAY: Final = "was turned away"


class LinkSessions:
    def __init__(self, me: Identity, options: LinkOptions) -> None:
        self.up: dict[str, LinkSession] = {}
        """Sessions that the stack has been told of, by peer."""
        self.live: dict[int, LinkSession] = {}
        """Sessions that have a connection, by its number."""
        self.news: list[News] = []
        """What the stack is told next."""
        self.met = Acquaintances(options.acquaintances_max)
        self._is_broker = me.role == "broker"
        self._options = options
        self.beginnings = Beginnings()
        """What all connections have in common of which nothing is known yet."""

    def latest_incarnation(self, peer: str) -> int:
        """The latest life of a peer that was met, as a broker or as a client; 0 for none."""
        link = self.up.get(peer)
        met = max(self.met.latest(peer, is_client)[0] for is_client in (False, True))
        return max(met, link.incarnation if link else 0)

    def latest_broker(self, peer: str) -> int:
        """The latest life of a broker that was met; 0 for none."""
        link = self.up.get(peer)
        return max(self.met.latest(peer, False)[0], link.incarnation if link and link.role != "client" else 0)

    # -- connections ------------------------------------------------------------------------------------------------

    def stand(self, link: LinkSession, connection: int, is_up: bool, now_us: int, out: Effects) -> None:
        """A session begins, or (`is_up`) goes on, on this connection."""
        links = len(self.live) + 1
        if shares(links) > shares(links - 1):
            for other in self.live.values():
                other.share(links, self.beginnings)
        link.stand(connection, links, self.beginnings, now_us)
        self.live[connection] = link
        self._stop_lingering(link, out)
        if not is_up:
            self.news.append(link)
            return
        link.ship_express(now_us, out)
        link.ship(now_us, out)
        if link.silent:
            link.silent = False
            self.news.append(Heard(link.peer))
        room = link.room_to_announce()
        if room is not None:
            self.news.append(Writable(link.peer, room))

    def lose(self, link: LinkSession, now_us: int, out: Effects, was_open: bool = False) -> None:
        """The connection is gone, the session stays. `was_open`: this node ends it, because it brought nothing."""
        del self.live[link.connection]
        link.fall()
        link.silent = True
        self.news.append(Silent(link.peer, False, was_open))
        options = self._options
        between_brokers = self._is_broker and link.role == "broker"
        linger_us = options.broker_linger_us if between_brokers else options.session_linger_us
        if not link.is_opener and linger_us is not None:
            link.lingers = True
            out.append(SetTimer(LingerOver(link.peer), now_us + linger_us))

    # -- the end of sessions ----------------------------------------------------------------------------------------

    def end(
        self, link: LinkSession, reason: str, cause: EndCause, say: bool, out: Effects, code: EndCode = EndCode.NONE
    ) -> None:
        """It is over, and not because the stack wanted it; `say`: the peer does not know, and is told the code, which
        is otherwise what it said."""
        del self.up[link.peer]
        self._let_go(link, reason, say, out, code)
        self.news.append(LinkDown(link.peer, reason, cause, EndCode.NONE if say else code))

    def replace(self, link: LinkSession, incarnation: int, out: Effects) -> None:
        """The peer, in this life, begins another one, so this one is over."""
        if incarnation > link.incarnation:
            self.end(link, f"{link.peer} restarted", EndCause.RESTARTED, True, out, EndCode.REPLACED)
        else:
            self.end(link, f"{link.peer} began anew", EndCause.CLOSED, True, out, EndCode.REOPENED)

    def give_way(self, link: LinkSession, out: Effects) -> None:
        """A broker has the name of this client."""
        reason = f"{link.peer} is the name of a broker, which has come"
        self.end(link, reason, EndCause.CLOSED, True, out, EndCode.FORBIDDEN)

    def close(self, peer: str, reason: str, out: Effects, code: EndCode = EndCode.NONE) -> None:
        """The stack wants no session with this peer. What it has not heard of yet, it need not hear; only a session
        that the peer has opened meanwhile is something new to it, and stays."""
        for news in [news for news in self.news if news.peer == peer]:
            if not isinstance(news, LinkSession):
                self.news.remove(news)
            elif news.is_opener:
                self.news.remove(news)
                self._let_go(news, reason, True, out, code)
        link = self.up.pop(peer, None)
        if link is not None:
            self._let_go(link, reason, True, out, code)

    def _let_go(self, link: LinkSession, reason: str, say: bool, out: Effects, code: EndCode) -> None:
        link.over = True
        if not link.is_opener:
            self.met.meet(link.peer, link.role == "client", link.incarnation, link.epoch)
        self._stop_lingering(link, out)
        if link.connection:
            del self.live[link.connection]
            if say:
                refuse(link.connection, reason, out, code=code)
            else:
                out.append(Disconnect(link.connection, reason))
            link.fall()

    def _stop_lingering(self, link: LinkSession, out: Effects) -> None:
        if link.lingers:
            link.lingers = False
            out.append(CancelTimer(LingerOver(link.peer)))


def refuse(connection: int, reason: str, out: Effects, incarnation: int = 0, code: EndCode = EndCode.NONE) -> None:
    """Say why, and hang up; `incarnation` as in `Goodbye`."""
    out.append(Transmit(connection, Goodbye(reason, incarnation, code)))
    out.append(Disconnect(connection, reason))


class Refusals:
    def __init__(self) -> None:
        self._told: dict[str, tuple[int, int]] = {}
        """By reason, of which there are a few: when it was told last, and how often it has come up since."""

        self.counts: dict[str, int] = {}
        """How often each reason came up, told or not."""

    def count(self, why: str) -> None:
        """One that is told to nobody: whoever does it may do it a thousand times a second."""
        if why not in self.counts and len(self.counts) >= REASONS_MAX:
            why = OTHER_REASONS
        self.counts[why] = self.counts.get(why, 0) + 1

    def tell(self, who: str, why: str, now_us: int, out: list[Effect], what: str = TURNED_AWAY) -> None:
        """`why` names the limit, or the fault; `who` is different each time; `what` was done about it."""
        self.count(why)
        told = self._told.get(why)
        if told is not None and now_us - told[0] < PERIOD_US:
            self._told[why] = (told[0], told[1] + 1)
            return
        more = f"; {told[1]} more since that was said last" if told is not None and told[1] else ""
        self._told[why] = (now_us, 0)
        out.append(Note("note", {"detail": f"{who} {what}: {why}{more}"}))
