"""Connections and sessions of one node: how they are opened, greeted, lost, resumed and ended.

It knows nothing of the stack. What the stack has to hear is put on `news`, and `Links` tells it when the stack is not
in the middle of something. A session that has begun is `up` only once the stack has heard of it.
"""

from collections import deque
from random import Random
from typing import Any

from resprout.core import limits
from resprout.core.contract import (
    CancelTimer,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Effect,
    LinkDown,
    Note,
    SetTimer,
    Transmit,
    Writable,
)
from resprout.core.errors import PeerError
from resprout.links.frames import PROTOCOL_VERSION, Goodbye, Hello, Welcome
from resprout.links.handshake import Acquaintances, Identity, Ruling, check_welcome, judge_hello, shorten
from resprout.links.link import Dial, Greeting, Link
from resprout.links.options import LinkOptions
from resprout.links.timers import LingerOver, ReconnectDue

Effects = list[Effect]
News = LinkDown | Writable | Link
"""A link by itself: it has begun."""


class Switchboard:
    def __init__(self, me: Identity, options: LinkOptions, rng: Random, first_epoch: int = 1) -> None:
        self.up: dict[str, Link] = {}
        """Sessions that the stack knows, by peer."""
        self.live: dict[int, Link] = {}
        """Sessions by connection, as far as they have one."""
        self.greetings: dict[int, Greeting] = {}
        self.news: deque[News] = deque()
        self._me = me
        self._options = options
        self._rng = rng
        self._epoch = first_epoch - 1
        self._dials: dict[str, Dial] = {}
        self._met = Acquaintances(options.acquaintances_max)

    # -- what the stack wants ---------------------------------------------------------------------------------------

    def open(self, peer: str, out: Effects) -> None:
        if peer not in self._dials:
            self._dials[peer] = dial = Dial(peer)
            self._connect(dial, out)

    def close(self, peer: str, reason: str, out: Effects) -> None:
        dial = self._dials.pop(peer, None)
        if dial is not None:
            if dial.waiting:
                out.append(CancelTimer(ReconnectDue(peer)))
            self._hang_up(dial, reason, out)
        link = self.up.get(peer)
        if link is not None:
            self._forget(link, reason, True, out)
        else:
            self._take_back(peer)

    def met_incarnation(self, peer: str) -> int:
        return self._met.latest(peer)[0]

    def _take_back(self, peer: str) -> None:
        """The stack has closed a session before it could hear that it is over: it need not hear it."""
        for news in list(self.news):
            if isinstance(news, LinkDown) and news.peer == peer:
                self.news.remove(news)

    # -- connections come and go ------------------------------------------------------------------------------------

    def connected(self, event: Connected, now_us: int, out: Effects) -> None:
        connection, peer = event.connection, event.peer
        if peer is None:
            if len(self.greetings) >= self._options.greetings_max:
                out.append(Disconnect(connection, "too many connections"))
            else:
                self.greetings[connection] = Greeting(None, now_us)
            return
        dial = self._dials.get(peer)
        if dial is not None:
            dial.connecting = False
        up = self.up.get(peer)
        if dial is None or dial.connection or (up is not None and (up.connection or not up.is_opener)):
            out.append(Disconnect(connection, "not needed any more"))
            return
        if dial.waiting:
            dial.waiting = False
            out.append(CancelTimer(ReconnectDue(peer)))
        self._greet(dial, connection, up.incarnation if up else None, now_us, out)

    def disconnected(self, event: Disconnected, now_us: int, out: Effects) -> None:
        link = self.live.get(event.connection)
        if link is not None:
            self.lose(link, now_us, out)
        elif event.connection in self.greetings:
            self.stop_greeting(event.connection, now_us, out)
        elif event.peer is not None and event.connection == 0:
            dial = self._dials.get(event.peer)
            if dial is not None and dial.connecting:
                self._retry(dial, now_us, out)

    def lose(self, link: Link, now_us: int, out: Effects) -> None:
        """The connection is gone, the session stays."""
        del self.live[link.connection]
        link.connection = 0
        if link.is_opener:
            self._retry(self._dials[link.peer], now_us, out)
        else:
            link.lingers = True
            out.append(SetTimer(LingerOver(link.peer), now_us + self._options.session_linger_us))

    def stop_greeting(self, connection: int, now_us: int, out: Effects) -> None:
        """The connection is gone before it had a session."""
        dial = self.greetings.pop(connection).dial
        if dial is not None:
            self._retry(dial, now_us, out)

    def linger_over(self, timer: LingerOver, now_us: int, out: Effects) -> None:
        link = self.up.get(timer.peer)
        if link is not None and link.lingers:
            link.lingers = False
            self.end(link, f"{link.peer} did not come back", False, now_us, out)

    def greet_or_end(self, connection: int, frame: Any, now_us: int, out: Effects) -> None:
        """Any frame but `Data` within a session."""
        link = self.live.get(connection)
        if link is not None:
            if type(frame) is Goodbye:
                self.end(link, shorten(frame.reason, limits.REASON_BYTES), False, now_us, out)
            else:
                self.end(link, f"{type(frame).__name__} within a session", True, now_us, out)
            return
        greeting = self.greetings.pop(connection, None)
        if greeting is None:
            return  # a connection that was given up: what was under way on it has been, or will be, sent again
        if greeting.dial is not None:
            self._answered(connection, greeting.dial, frame, now_us, out)
        elif type(frame) is Hello:
            self._asked(connection, frame, now_us, out)
        else:
            _refuse(connection, f"{type(frame).__name__} before Hello", out)

    # -- opening ----------------------------------------------------------------------------------------------------

    def _connect(self, dial: Dial, out: Effects) -> None:
        up = self.up.get(dial.peer)
        if up is None or up.is_opener:  # a session that the peer opened will do as long as it lasts
            dial.connecting = True
            out.append(Connect(dial.peer))

    def reconnect(self, timer: ReconnectDue, now_us: int, out: Effects) -> None:
        dial = self._dials.get(timer.peer)
        if dial is not None and dial.waiting:
            dial.waiting = False
            self._connect(dial, out)

    def _retry(self, dial: Dial, now_us: int, out: Effects) -> None:
        dial.connecting = False
        dial.connection = 0
        dial.waiting = True
        out.append(SetTimer(ReconnectDue(dial.peer), now_us + dial.delay_us(self._options, self._rng)))

    def _hang_up(self, dial: Dial, reason: str, out: Effects) -> None:
        """Stop waiting for an answer; the session that was asked for is over."""
        dial.link = None
        if dial.connection:
            del self.greetings[dial.connection]
            _refuse(dial.connection, reason, out)
            dial.connection = 0

    def _greet(self, dial: Dial, connection: int, life: int | None, now_us: int, out: Effects) -> None:
        if dial.link is None:
            self._epoch += 1
            dial.link = Link(dial.peer, self._epoch, self._options, is_opener=True)
        dial.connection = connection
        self.greetings[connection] = Greeting(dial, now_us)
        me, (received, grant) = self._me, dial.link.standing()
        hello = Hello(
            PROTOCOL_VERSION, me.name, me.role, me.incarnation, dial.peer, life, dial.link.epoch, received, grant
        )
        out.append(Transmit(connection, hello))

    def _answered(self, connection: int, dial: Dial, frame: Any, now_us: int, out: Effects) -> None:
        link, dial.connection = dial.link, 0
        assert link is not None, "Hello was said for a session"
        is_up = dial.peer in self.up
        try:
            if type(frame) is not Welcome:
                raise PeerError(f"{type(frame).__name__} instead of Welcome")
            check_welcome(frame, link, self._met.latest(link.peer)[0], is_up)
            if is_up:
                link.resume(frame.received, frame.grant)
            else:
                link.begin(frame.role, frame.incarnation, frame.received, frame.grant)
        except PeerError as error:
            if type(frame) is Goodbye:
                reason = shorten(frame.reason, limits.REASON_BYTES)
                out.append(Disconnect(connection, reason))
            else:
                reason = str(error)
                _refuse(connection, reason, out)
            self._turned_away(dial, link, reason, now_us, out)
            return
        dial.failures = 0
        self._met.meet(link.peer, link.incarnation)
        self._stand(link, connection, is_up, now_us, out)

    def _turned_away(self, dial: Dial, link: Link, reason: str, now_us: int, out: Effects) -> None:
        """No agreement on the session: it is over, and the next attempt begins another."""
        out.append(Note("link_refused", {"detail": f"{dial.peer}: {reason}"}))
        if link.peer in self.up:
            self.end(link, reason, False, now_us, out)
        else:
            dial.link = None
            self._retry(dial, now_us, out)

    # -- being opened -----------------------------------------------------------------------------------------------

    def _asked(self, connection: int, hello: Hello, now_us: int, out: Effects) -> None:
        link = self.up.get(hello.name)
        dial = self._dials.get(hello.name)
        is_greeting = dial is not None and dial.connection != 0
        ruling, reason = judge_hello(hello, self._me, self._met.latest(hello.name), link, is_greeting)
        if ruling is Ruling.RESUME:
            assert link is not None
            self._resume(link, connection, hello, now_us, out)
        elif ruling is Ruling.REFUSE:
            _refuse(connection, reason, out)
        elif link is None and len(self.up) >= self._options.sessions_max:
            _refuse(connection, "too many sessions", out)
        else:
            if link is not None:
                restarted = hello.incarnation > link.incarnation
                self.end(link, f"{link.peer} {'restarted' if restarted else 'began anew'}", True, now_us, out)
            self._begin(connection, hello, now_us, out)

    def _resume(self, link: Link, connection: int, hello: Hello, now_us: int, out: Effects) -> None:
        try:
            link.resume(hello.received, hello.grant)
        except PeerError as error:
            _refuse(connection, str(error), out)
            self.end(link, str(error), True, now_us, out)
            return
        if link.connection:
            del self.live[link.connection]
            out.append(Disconnect(link.connection, "replaced by a newer connection"))
        self._welcome(link, connection, out)
        self._stand(link, connection, True, now_us, out)

    def _begin(self, connection: int, hello: Hello, now_us: int, out: Effects) -> None:
        link = Link(hello.name, hello.epoch, self._options, is_opener=False)
        try:
            link.begin(hello.role, hello.incarnation, hello.received, hello.grant)
        except PeerError as error:
            _refuse(connection, str(error), out)
            return
        dial = self._dials.get(hello.name)
        if dial is not None:
            self._hang_up(dial, f"{self._me.name} takes the session that {hello.name} opened", out)
        self._met.meet(link.peer, link.incarnation, link.epoch)
        self._welcome(link, connection, out)
        self._stand(link, connection, False, now_us, out)

    def _welcome(self, link: Link, connection: int, out: Effects) -> None:
        me, (received, grant) = self._me, link.standing()
        welcome = Welcome(PROTOCOL_VERSION, me.name, me.role, me.incarnation, link.epoch, received, grant)
        out.append(Transmit(connection, welcome))

    # -- beginning and end of sessions ------------------------------------------------------------------------------

    def _stand(self, link: Link, connection: int, is_up: bool, now_us: int, out: Effects) -> None:
        """The handshake is complete."""
        link.connection = connection
        link.heard_us = link.spoke_us = now_us
        self.live[connection] = link
        self._stop_lingering(link, out)
        if not is_up:
            self.news.append(link)
            return
        link.ship(now_us, out)
        room = link.room_to_announce()
        if room is not None:
            self.news.append(Writable(link.peer, room))

    def end(self, link: Link, reason: str, say: bool, now_us: int, out: Effects) -> None:
        """A session is over, and not because the stack wanted it; `say`: the peer does not know."""
        self._forget(link, reason, say, out)
        self.news.append(LinkDown(link.peer, reason))
        dial = self._dials.get(link.peer)
        if dial is not None:
            self._hang_up(dial, reason, out)
            if not dial.waiting and not dial.connecting:
                self._retry(dial, now_us, out)

    def _forget(self, link: Link, reason: str, say: bool, out: Effects) -> None:
        link.over = True
        del self.up[link.peer]
        if not link.is_opener:
            self._met.meet(link.peer, link.incarnation, link.epoch)
        self._stop_lingering(link, out)
        if link.connection:
            del self.live[link.connection]
            if say:
                _refuse(link.connection, reason, out)
            else:
                out.append(Disconnect(link.connection, reason))
            link.connection = 0

    def _stop_lingering(self, link: Link, out: Effects) -> None:
        if link.lingers:
            link.lingers = False
            out.append(CancelTimer(LingerOver(link.peer)))


def _refuse(connection: int, reason: str, out: Effects) -> None:
    out.append(Transmit(connection, Goodbye(reason)))
    out.append(Disconnect(connection, reason))
