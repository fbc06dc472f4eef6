"""Connections of one node: how they are opened, greeted and lost, and which session each of them serves.

It knows nothing of the stack: see `LinkSessions.news`.

A session that the peer opened and that lacks its connection is asked for from this side too, if the stack wants it. The
peer that still has it says so, and connects itself; one that has forgotten it, or has begun another life, takes the new
one. So neither waits for a peer that will not come.

`Watch` sends signs of life on quiet connections, and suspects silent ones. A suspicion costs a connection, never a
session: a peer that is alive connects again or is connected to, and resumes. A node that looks much later than it meant
to was asleep itself, and handles first what has arrived meanwhile.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from resprout.core import limits
from resprout.core.contract import (
    Connected,
    Disconnect,
    Disconnected,
    Effect,
    EndCause,
    EndCode,
    LinkDown,
    Note,
    SetTimer,
    Silent,
    Transmit,
)
from resprout.core.errors import PeerError
from resprout.core.limits import newcomer_key
from resprout.links.frames import (
    PROTOCOL_VERSION,
    Bodies,
    Goodbye,
    Hello,
    LingerOver,
    ReconnectDue,
    SessionWelcome,
    WatchDue,
)
from resprout.links.handshake import (
    NEWCOMER,
    Dial,
    Dialer,
    Greeting,
    Identity,
    Ruling,
    cause_of,
    check_welcome,
    judge_hello,
    shorten,
)
from resprout.links.link import LinkSession
from resprout.links.options import LinkOptions
from resprout.links.sessions import LinkSessions, Refusals, refuse

Effects = list[Effect]

_NEVER_TAKEN: Final = (EndCode.OUTLIVED, EndCode.FORBIDDEN)
"""A client that is told so need not ask again."""
_CODES: Final = {Ruling.OUTLIVED: EndCode.OUTLIVED, Ruling.FORBID: EndCode.FORBIDDEN}

_WATCH: Final = WatchDue()

TOLD_MAX: Final = 64
PERIOD_US: Final = 10_000_000
"""Silent clients that are told one by one in so long; of more, their number is told. Anybody can be a silent client."""


class Switchboard:
    def __init__(
        self,
        me: Identity,
        options: LinkOptions,
        rng: Random,
        bodies: Bodies,
        first_epoch: int = 1,
        incarnation_max: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.sessions = LinkSessions(me, options)
        self.greetings: dict[int, Greeting] = {}
        self._me = me
        self._options = options
        self._bodies = bodies
        self._incarnation_max = incarnation_max
        self._epoch = first_epoch - 1
        self.refusals = Refusals()
        self.knows_broker: Callable[[str], bool] = lambda name: False
        """Whether a broker is, or was, called so, as far as the stack knows."""
        self._dialer = Dialer(options, rng)
        self._dials = self._dialer.dials
        self._up = self.sessions.up
        self._live = self.sessions.live
        self._met = self.sessions.met

    # -- what the stack wants ---------------------------------------------------------------------------------------

    def open(self, peer: str, now_us: int, out: Effects, newcomer: bool = False) -> None:
        self._take_name_from_client(self._up.get(peer), now_us, out)
        if peer not in self._dials:
            self._dials[peer] = dial = Dial(peer, newcomer)
            self._call(dial, out)
        elif not newcomer:
            self._dials[peer].newcomer = False

    def _take_name_from_client(self, link: LinkSession | None, now_us: int, out: Effects) -> None:
        """A broker is wanted, or has come, whose name a client has: the name is the broker's."""
        if link is not None and link.role == "client" and self._me.role != "client":
            self.sessions.give_way(link, out)
            self.refusals.tell(f"client {link.peer}", "a broker of its name has come", now_us, out, "was cut off")

    def close(self, peer: str, reason: str, out: Effects, code: EndCode = EndCode.NONE) -> None:
        dial = self._dials.pop(peer, None)
        if dial is not None:
            self._dialer.stop_waiting(dial, out)
            self._hang_up(dial, reason, out)
        self.sessions.close(peer, reason, out, code)

    def adopt(self, key: str, name: str) -> None:
        """The opener of this session has the name now. The session goes on as it is; its opener knows it by epoch."""
        link = self._up.pop(key, None)
        if link is not None and name not in self._up:
            link.peer, link.role = name, self._me.role
            self._up[name] = link
            self._met.meet(name, False, link.incarnation, link.epoch)

    # -- connections come and go ------------------------------------------------------------------------------------

    def connected(self, event: Connected, now_us: int, out: Effects) -> None:
        connection, peer = event.connection, event.peer
        if peer is None:
            if self._has_room_for_a_stranger(now_us, out):
                self.greetings[connection] = Greeting(None, now_us)
            else:
                out.append(Disconnect(connection, "too many connections"))
            return
        dial = self._dials.get(peer)
        if dial is not None:
            dial.connecting = False
        up = self._up.get(peer)
        if dial is None or dial.connection or (up is not None and up.connection):
            out.append(Disconnect(connection, "not needed any more"))
            return
        self._dialer.stop_waiting(dial, out)
        self._greet(dial, connection, up.incarnation if up is not None and up is dial.link else None, now_us, out)

    def _has_room_for_a_stranger(self, now_us: int, out: Effects) -> bool:
        """Whoever has said nothing for longest makes room: those who only connect do not keep out those who speak."""
        most = self._options.greetings_max
        if len(self.greetings) < most:
            return True
        oldest = next((number for number, greeting in self.greetings.items() if greeting.dial is None), None)
        if oldest is None:
            return False
        del self.greetings[oldest]
        out.append(Disconnect(oldest, "it has not said who it is, and others want to"))
        why = f"{most} connections that have not said who they are is the limit (greetings_max)"
        self.refusals.tell("the oldest of them", why, now_us, out)
        return True

    def disconnected(self, event: Disconnected, now_us: int, out: Effects) -> None:
        link = self._live.get(event.connection)
        if link is not None:
            self.lose(link, now_us, out)
        elif event.connection in self.greetings:
            self.stop_greeting(event.connection, now_us, out)
        elif event.peer is not None and event.connection == 0:
            dial = self._dials.get(event.peer)
            if dial is not None and dial.connecting:
                dial.connecting = False
                self._failed(dial, event.refused, now_us, out)

    def lose(self, link: LinkSession, now_us: int, out: Effects, was_open: bool = False) -> None:
        """The connection is gone, the session stays. Whichever side wants it tries to reach the other."""
        self.sessions.lose(link, now_us, out, was_open)
        dial = self._dials.get(link.peer)
        if dial is not None:
            self._dialer.broke(dial, now_us - link.stood_us)
            self._dialer.call_again(dial, now_us, out)

    def stop_greeting(self, connection: int, now_us: int, out: Effects) -> None:
        """The connection is gone before it had a session."""
        dial = self.greetings.pop(connection).dial
        if dial is not None:
            dial.connection = 0
            self._failed(dial, False, now_us, out)

    def _failed(self, dial: Dial, refused: bool, now_us: int, out: Effects) -> None:
        """An attempt to reach a peer has led to nothing, not even an answer."""
        link = self._up.get(dial.peer)
        if link is None or not link.connection:
            self.sessions.news.append(Silent(dial.peer, refused))
            self._dialer.call_again(dial, now_us, out)

    def linger_over(self, timer: LingerOver, now_us: int, out: Effects) -> None:
        link = self._up.get(timer.peer)
        if link is not None and link.lingers:
            link.lingers = False
            self.end(link, f"{link.peer} did not come back", EndCause.LOST, False, now_us, out)

    def greet_or_end(self, connection: int, frame: Any, now_us: int, out: Effects) -> None:
        """Any frame but `Data` within a session."""
        link = self._live.get(connection)
        if link is not None:
            if type(frame) is Goodbye:
                reason = shorten(frame.reason, limits.REASON_BYTES)
                self.end(link, reason, EndCause.CLOSED, False, now_us, out, frame.code)
            else:
                self.end(link, f"{type(frame).__name__} within a session", EndCause.LOST, True, now_us, out)
            return
        greeting = self.greetings.pop(connection, None)
        if greeting is None:
            return  # a connection that was given up: what was under way on it has been, or will be, sent again
        if greeting.dial is not None:
            self._answered(connection, greeting.dial, frame, now_us, out)
        elif type(frame) is Hello:
            self._asked(connection, frame, now_us, out)
        else:
            refuse(connection, f"{type(frame).__name__} before Hello", out)

    # -- opening ----------------------------------------------------------------------------------------------------

    def _call(self, dial: Dial, out: Effects) -> None:
        up = self._up.get(dial.peer)
        if up is None or not up.connection:  # a session that the peer opened will do, as long as it is connected
            self._dialer.call(dial, out)

    def reconnect(self, timer: ReconnectDue, now_us: int, out: Effects) -> None:
        dial = self._dials.get(timer.peer)
        if dial is not None and dial.waiting:
            dial.waiting = False
            self._call(dial, out)

    def _hang_up(self, dial: Dial, reason: str, out: Effects) -> None:
        """Stop waiting for an answer; the session that was asked for is over."""
        dial.link = None
        if dial.connection:
            del self.greetings[dial.connection]
            refuse(dial.connection, reason, out)
            dial.connection = 0

    def _greet(self, dial: Dial, connection: int, life: int | None, now_us: int, out: Effects) -> None:
        if dial.link is None:
            self._epoch += 1
            dial.link = LinkSession(dial.peer, self._epoch, self._options, self._bodies, is_opener=True)
        link: LinkSession = dial.link
        dial.connection = connection
        link.greeted_us = now_us
        self.greetings[connection] = Greeting(dial, now_us)
        me = self._me
        hello = Hello(
            PROTOCOL_VERSION, me.name, NEWCOMER if dial.newcomer else me.role, me.incarnation, dial.peer, life,
            link.epoch, *link.standing(), link.assembly.have, link.express.standing(),
        )  # fmt: skip
        out.append(Transmit(connection, hello))

    def _answered(self, connection: int, dial: Dial, frame: Any, now_us: int, out: Effects) -> None:
        link, dial.connection = dial.link, 0
        assert isinstance(link, LinkSession), "Hello was said for a session"
        before = self._up.get(link.peer)
        resumes = before is link
        try:
            if type(frame) is not SessionWelcome:
                raise PeerError(f"{type(frame).__name__} instead of Welcome")
            check_welcome(frame, link, self._met.latest(link.peer, False)[0], resumes, self._incarnation_max())
            if resumes:
                link.resume(frame.received, frame.grant, frame.part, frame.express)
            else:
                link.begin(frame.role, frame.incarnation, frame.received, frame.grant)
        except PeerError as error:
            if type(frame) is Goodbye:
                reason = shorten(frame.reason, limits.REASON_BYTES)
                out.append(Disconnect(connection, reason))
            else:
                reason = str(error)
                refuse(connection, reason, out)
            self._turned_away(dial, link, reason, frame, now_us, out)
            return
        if before is not None and not resumes:
            self.sessions.replace(before, link.incarnation, out)
        self._met.meet(link.peer, link.role == "client", link.incarnation)
        link.trip_us = now_us - link.greeted_us
        self._stand(link, connection, resumes, now_us, out)

    def _turned_away(self, dial: Dial, link: LinkSession, reason: str, frame: Any, now_us: int, out: Effects) -> None:
        """No agreement on the session: it is over, and the next attempt begins another. Where the peer has opened one
        that only lacks its connection, it says so, and nothing is wrong."""
        up = self._up.get(link.peer)
        code = frame.code if type(frame) is Goodbye else EndCode.NONE
        if up is None or up is link:
            out.append(Note("link_refused", {"detail": f"{dial.peer}: {reason}"}))
        if up is link:
            self.end(link, reason, cause_of(frame, link), False, now_us, out, code)
            return
        dial.link = None
        if up is None and self._me.role == "client" and code in _NEVER_TAKEN:
            self.sessions.news.append(LinkDown(link.peer, reason, EndCause.CLOSED, code))
        if up is not None and not up.connection and type(frame) is Goodbye and frame.incarnation > up.incarnation:
            # A later life listens there, which may not want a session yet: the one with the earlier life is over.
            self.end(up, f"{up.peer} restarted", EndCause.RESTARTED, False, now_us, out)
        elif up is None or not up.connection:
            self._dialer.call_again(dial, now_us, out)

    # -- being opened -----------------------------------------------------------------------------------------------

    def _asked(self, connection: int, hello: Hello, now_us: int, out: Effects) -> None:
        key = self._key_of(hello)
        link = self._up.get(key)
        dial = self._dials.get(key)
        is_greeting = dial is not None and dial.connection != 0
        latest = self._met.latest(key, hello.role == "client")
        ruling, reason = judge_hello(hello, self._me, latest, link, is_greeting, self._incarnation_max())
        if ruling is Ruling.BEGIN and hello.role == "client" and (dial is not None or self.knows_broker(hello.name)):
            ruling, reason = Ruling.FORBID, f"{hello.name} is, or was, the name of a broker"
        if ruling is Ruling.RESUME:
            assert link is not None
            self._resume(link, connection, hello, now_us, out)
        elif ruling is not Ruling.BEGIN:
            if ruling is Ruling.FORBID:
                self.refusals.tell(f"client {hello.name}", "its name is that of a broker", now_us, out)
            code = _CODES.get(ruling, EndCode.NONE)
            refuse(connection, reason, out, self._me.incarnation if hello.peer == self._me.name else 0, code)
        elif link is None and len(self._up) >= self._options.sessions_max:
            refuse(connection, "too many sessions", out)
            why = f"{self._options.sessions_max} sessions is the limit (sessions_max)"
            self.refusals.tell(hello.name, why, now_us, out)
        else:
            self._begin(key, link, connection, hello, now_us, out)

    def _key_of(self, hello: Hello) -> str:
        """A newcomer that was adopted may not know it yet when it resumes. A broker whose name has gone to a later life
        is a stranger, too: the stack can tell it so only in a session."""
        link = self._up.get(hello.name)
        if hello.role == NEWCOMER:
            adopted = link is not None and not link.is_opener and link.incarnation == hello.incarnation
            is_stranger = not adopted or link is None or link.epoch != hello.epoch or link.role == "client"
        else:
            both_brokers = hello.role == self._me.role == "broker"
            is_over = hello.incarnation < self.sessions.latest_broker(hello.name)
            is_stranger = both_brokers and is_over and hello.peer_incarnation is None
        return newcomer_key(hello.name, hello.incarnation, hello.epoch) if is_stranger else hello.name

    def _resume(self, link: LinkSession, connection: int, hello: Hello, now_us: int, out: Effects) -> None:
        try:
            link.resume(hello.received, hello.grant, hello.part, hello.express)
        except PeerError as error:
            refuse(connection, str(error), out)
            self.end(link, str(error), EndCause.LOST, True, now_us, out)
            return
        if link.connection:
            del self._live[link.connection]
            out.append(Disconnect(link.connection, "replaced by a newer connection"))
        self._welcome(link, connection, out)
        self._stand(link, connection, True, now_us, out)

    def _begin(
        self, key: str, before: LinkSession | None, connection: int, hello: Hello, now_us: int, out: Effects
    ) -> None:
        link = LinkSession(key, hello.epoch, self._options, self._bodies, is_opener=False)
        try:
            link.begin(NEWCOMER if key != hello.name else hello.role, hello.incarnation, hello.received, hello.grant)
        except PeerError as error:
            refuse(connection, str(error), out)
            return
        if before is not None and (before.role == "client") is not (link.role == "client"):
            self._take_name_from_client(before, now_us, out)
        elif before is not None:
            self.sessions.replace(before, link.incarnation, out)
        dial = self._dials.get(key)
        if dial is not None:
            self._hang_up(dial, f"{self._me.name} takes the session that {hello.name} opened", out)
        self._met.meet(link.peer, link.role == "client", link.incarnation, link.epoch)
        self._welcome(link, connection, out)
        self._stand(link, connection, False, now_us, out)

    def _welcome(self, link: LinkSession, connection: int, out: Effects) -> None:
        me = self._me
        welcome = SessionWelcome(
            PROTOCOL_VERSION, me.name, me.role, me.incarnation, link.epoch, *link.standing(), link.assembly.have,
            link.express.standing(),
        )  # fmt: skip
        out.append(Transmit(connection, welcome))

    # -- beginning and end of sessions ------------------------------------------------------------------------------

    def _stand(self, link: LinkSession, connection: int, is_up: bool, now_us: int, out: Effects) -> None:
        """The handshake is complete."""
        self.sessions.stand(link, connection, is_up, now_us, out)
        dial = self._dials.get(link.peer)
        if dial is not None:
            self._dialer.stood(dial, out)

    def end(
        self,
        link: LinkSession,
        reason: str,
        cause: EndCause,
        say: bool,
        now_us: int,
        out: Effects,
        code: EndCode = EndCode.NONE,
    ) -> None:
        """It is over, and not because the stack wanted it; `say`: the peer does not know; `code`: what it said."""
        self.sessions.end(link, reason, cause, say, out, code)
        dial = self._dials.get(link.peer)
        if dial is not None:
            self._hang_up(dial, reason, out)
            dial.attempts = max(dial.attempts, 1)  # whoever ends one session after the other is not called at once
            self._dialer.call_again(dial, now_us, out)


class Watch:
    def __init__(self, board: Switchboard, options: LinkOptions) -> None:
        self._board = board
        self._heartbeat_us = options.heartbeat_us
        self._silence_us = options.silence_us
        delays = [delay for delay in (options.heartbeat_us, options.silence_us) if delay is not None]
        self._every_us = max(1, min(delays) // 2) if delays else None
        """Twice in the shorter of the two delays."""
        self._due_us = 0
        self._told_since_us = 0
        self._told = 0
        """Silent clients since then, told or not."""

    def set(self, now_us: int, out: list[Effect]) -> None:
        if self._every_us is not None:
            self._due_us = now_us + self._every_us
            out.append(SetTimer(_WATCH, self._due_us))

    def look(self, timer: WatchDue, now_us: int, out: list[Effect]) -> None:
        every_us = self._every_us or 0
        if self._silence_us is not None and now_us <= self._due_us + every_us:
            self._suspect(self._silence_us, now_us, out)
        sessions = self._board.sessions
        for link in sessions.live.values():
            link.rest(len(sessions.live), sessions.beginnings)
        if self._heartbeat_us is not None:
            quiet_since_us = now_us + every_us - self._heartbeat_us  # at the next look it would be too late
            for link in self._board.sessions.live.values():
                if link.spoke_us < quiet_since_us:
                    link.send_ack(now_us, out)
        self.set(now_us, out)

    def _suspect(self, silence_us: int, now_us: int, out: list[Effect]) -> None:
        board = self._board
        for link in [link for link in board.sessions.live.values() if now_us - link.heard_us >= silence_us]:
            reason = f"{link.peer} was silent for {now_us - link.heard_us} us"
            if link.role != "client" or self._may_tell(now_us, out):
                out.append(Note("suspect", {"detail": reason}))
            out.append(Disconnect(link.connection, reason))
            board.lose(link, now_us, out, was_open=True)
        for connection in [c for c, greeting in board.greetings.items() if now_us - greeting.since_us >= silence_us]:
            out.append(Disconnect(connection, "no greeting came"))
            board.stop_greeting(connection, now_us, out)

    def _may_tell(self, now_us: int, out: list[Effect]) -> bool:
        """Of one more client that was silent; first how many were left out."""
        if now_us - self._told_since_us >= PERIOD_US:
            left_out = self._told - TOLD_MAX
            self._told_since_us, self._told = now_us, 0
            if left_out > 0:
                out.append(Note("note", {"detail": f"{left_out} more clients were silent and lost their connections"}))
        self._told += 1
        return self._told <= TOLD_MAX
