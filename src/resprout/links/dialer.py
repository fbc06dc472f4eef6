"""Whom the stack wants sessions with, and when to try to connect to them.

After a connection broke the first attempt comes at once: whether the peer refuses or answers is what everybody waits
for. Further attempts back off, and so does the first one while connections break again before they have lasted.
"""

from random import Random

import msgspec

from resprout.core.contract import CancelTimer, Connect, Effect, SetTimer
from resprout.links.link import LinkSession
from resprout.links.options import LinkOptions
from resprout.links.timers import ReconnectDue

Effects = list[Effect]


class Dial:
    """A peer that the stack wants a session with, until it closes it."""

    __slots__ = ("attempts", "breaks", "connecting", "connection", "link", "newcomer", "peer", "waiting")

    def __init__(self, peer: str, newcomer: bool = False) -> None:
        self.peer = peer
        self.newcomer = newcomer
        """It is greeted as a stranger whose name may be taken."""
        self.attempts = 0
        """Made since the session last had a connection."""
        self.breaks = 0
        """Connections in a row that did not last."""
        self.link: LinkSession | None = None
        """The session that is, or will be, opened by this side. It keeps its epoch until it is known to be
        over: the same `Hello` again never begins a second session where the first answer was lost."""
        self.connection = 0
        """On which `Welcome` is awaited; 0 for none."""
        self.connecting = False
        """`Connect` is not answered yet."""
        self.waiting = False
        """`ReconnectDue` is set."""


class Greeting(msgspec.Struct, frozen=True):
    """A connection without a session yet."""

    dial: Dial | None
    """Whose `Welcome` is awaited; None when the other side has to say `Hello`."""
    since_us: int


class Dialer:
    def __init__(self, options: LinkOptions, rng: Random) -> None:
        self.dials: dict[str, Dial] = {}
        self._us_min = options.reconnect_us_min
        self._us_max = options.reconnect_us_max
        self._rng = rng

    def call(self, dial: Dial, out: Effects) -> None:
        """Try now."""
        self.stop_waiting(dial, out)
        dial.connecting = True
        dial.attempts += 1
        out.append(Connect(dial.peer))

    def call_again(self, dial: Dial, now_us: int, out: Effects) -> None:
        """There is no connection: try when it is time to, unless an attempt is under way or planned already."""
        if dial.connecting or dial.connection or dial.waiting:
            return
        delay_us = self.delay_us(dial)
        if delay_us:
            dial.waiting = True
            out.append(SetTimer(ReconnectDue(dial.peer), now_us + delay_us))
        else:
            self.call(dial, out)

    def stood(self, dial: Dial, out: Effects) -> None:
        """The session has a connection, whoever made it."""
        dial.attempts = 0
        self.stop_waiting(dial, out)

    def broke(self, dial: Dial, lasted_us: int) -> None:
        """The connection of the session is gone. One that has outlasted the next delay makes good for earlier ones."""
        if lasted_us >= self._backoff_us(dial.breaks):
            dial.breaks = 0
        dial.attempts = dial.breaks
        dial.breaks += 1

    def stop_waiting(self, dial: Dial, out: Effects) -> None:
        if dial.waiting:
            dial.waiting = False
            out.append(CancelTimer(ReconnectDue(dial.peer)))

    def delay_us(self, dial: Dial) -> int:
        """How long to wait after the attempts that were made."""
        if dial.attempts == 0:
            return 0
        delay_us = self._backoff_us(dial.attempts - 1)
        return delay_us - int(self._rng.random() * delay_us / 2)

    def _backoff_us(self, doublings: int) -> int:
        return min(self._us_max, self._us_min << min(doublings, 32))
