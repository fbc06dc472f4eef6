"""How sessions begin: whom the stack wants sessions with and when to connect, and who may begin or resume one.

`Dialer` says when to try. After a connection broke the first attempt comes at once: everybody waits to learn whether
the peer refuses or answers. Further attempts back off, and so does the first one while connections break again before
they have lasted.

The functions decide about greetings and do nothing else. A session is named by the opener's incarnation and epoch, and
belongs to one life of the acceptor. An acceptor never begins the same one twice within its life, so a `Hello` that was
long under way does no harm, and an opener that asks to resume is either understood exactly or refused; it then begins
its next epoch.

A peer that can say `Hello` on a connection is believed: proving a name is the business of the connection below.
`KnowsLives` and `KnowsBrokers` are what a stack may know of clients and brokers beyond its own sessions.
"""

import enum
from random import Random
from typing import Any, Protocol, runtime_checkable

import msgspec

from resprout.core import limits
from resprout.core.contract import CancelTimer, Connect, Effect, EndCause, SetTimer
from resprout.core.errors import NameRefusedError, PeerError
from resprout.core.limits import check_name
from resprout.links.frames import PROTOCOL_VERSION, Goodbye, Hello, ReconnectDue, SessionWelcome
from resprout.links.link import LinkSession
from resprout.links.options import LinkOptions

ROLES = ("broker", "client")
NEWCOMER = "newcomer"
"""The role of a broker in sessions that it opens while its name may be taken: they never replace another one's."""

Effects = list[Effect]


@runtime_checkable
class KnowsLives(Protocol):
    """A stack that hears of clients that are elsewhere."""

    def latest_life(self, client: str) -> int:
        """0 for none."""
        ...


@runtime_checkable
class KnowsBrokers(Protocol):
    """A stack that knows brokers with which it has no session."""

    def knows_broker(self, name: str) -> bool:
        """Whether a broker is, or was, called so: then no client is."""
        ...


class Identity(msgspec.Struct, frozen=True):
    """Who this side is, for one life."""

    name: str
    role: str
    incarnation: int


class Acquaintances:
    """The latest (incarnation, epoch) of peers that opened a session, or incarnation alone of those that were reached.
    Bounded: the one not met for longest is forgotten first. A client and a broker of one name are two peers: what was
    seen of the one outlives nothing of the other."""

    def __init__(self, count_max: int) -> None:
        self._met: dict[tuple[str, bool], tuple[int, int]] = {}
        self._count_max = count_max

    def meet(self, name: str, is_client: bool, incarnation: int, epoch: int = 0) -> None:
        latest = max(self._met.pop((name, is_client), (0, 0)), (incarnation, epoch))
        self._met[name, is_client] = latest
        if len(self._met) > self._count_max:
            del self._met[next(iter(self._met))]

    def latest(self, name: str, is_client: bool) -> tuple[int, int]:
        return self._met.get((name, is_client), (0, 0))


class Ruling(enum.Enum):
    REFUSE = enum.auto()
    OUTLIVED = enum.auto()
    """Refused, because a later life of the opener was met."""
    FORBID = enum.auto()
    """Refused, and it need not ask again."""
    RESUME = enum.auto()
    BEGIN = enum.auto()


def judge_hello(
    hello: Hello,
    me: Identity,
    met: tuple[int, int],
    link: LinkSession | None,
    is_greeting: bool,
    incarnation_max: int | None = None,
) -> tuple[Ruling, str]:
    """What to do about a `Hello`, and why: `met` is the latest that was seen of its sender, `link` the session with it,
    `is_greeting` whether this side has said `Hello` to it and awaits the answer, `incarnation_max` the highest number
    of a life that can be honest by now. A broker has its name before any client: it takes the session's place."""
    if fault := _fault_of(hello, me) or _fault_of_number(hello.incarnation, incarnation_max):
        return Ruling.REFUSE, fault
    if link is not None and link.role != "client" and hello.role == "client":
        return Ruling.FORBID, f"{hello.name} is the name of a broker"
    if link is not None and link.role == "client" and hello.role != "client":
        link = None
    latest_incarnation = max(met[0], link.incarnation if link else 0)
    if hello.incarnation < latest_incarnation:
        over = f"incarnation {hello.incarnation} of {hello.name} is over"
        return Ruling.OUTLIVED, f"{over}: {latest_incarnation} has been here"
    if hello.peer_incarnation not in (None, me.incarnation):
        return Ruling.REFUSE, f"{me.name} restarted: this is incarnation {me.incarnation}"
    over = f"session {hello.epoch} of {hello.name} is over"
    if link is not None and link.incarnation == hello.incarnation and link.is_opener:
        return Ruling.REFUSE, f"{me.name} has opened a session with {hello.name} itself"
    if link is not None and link.incarnation == hello.incarnation:
        if link.epoch == hello.epoch:
            return Ruling.RESUME, ""
        if link.epoch > hello.epoch:
            return Ruling.REFUSE, over
    if hello.peer_incarnation is not None or (hello.incarnation, hello.epoch) <= met:
        return Ruling.REFUSE, over
    if is_greeting and me.name < hello.name:  # both opened at once: one of the two attempts has to win
        return Ruling.REFUSE, f"{me.name} is opening a session with {hello.name} itself"
    return Ruling.BEGIN, ""


def check_welcome(
    welcome: SessionWelcome, link: LinkSession, latest_incarnation: int, is_up: bool, incarnation_max: int | None = None
) -> None:
    """Raises PeerError when an answer does not fit what was asked. `is_up`: a session that had begun is resumed."""
    if fault := _fault_of_number(welcome.incarnation, incarnation_max):
        raise PeerError(fault)
    if fault := fault_of_version(welcome.version):
        raise PeerError(fault)
    if welcome.name != link.peer:
        raise PeerError(f"reached {shorten(welcome.name)} instead of {link.peer}")
    if welcome.role not in ROLES:
        raise PeerError(f"there is no role {shorten(welcome.role)}")
    if welcome.epoch != link.epoch:
        raise PeerError(f"session {link.epoch} was asked for, not {welcome.epoch}")
    if is_up and welcome.incarnation != link.incarnation:
        raise PeerError(f"{link.peer} restarted: incarnation {welcome.incarnation} after {link.incarnation}")
    if welcome.incarnation < 1:
        raise PeerError("incarnations are numbered from 1")
    if welcome.incarnation < latest_incarnation:
        raise PeerError(f"incarnation {welcome.incarnation} of {link.peer} is over: {latest_incarnation} has been here")


def cause_of(answer: Any, link: LinkSession) -> EndCause:
    """Why a session that was to be resumed is over, from the answer that ended it; see `LinkDown.cause`."""
    if type(answer) is Goodbye and answer.incarnation:
        if answer.incarnation == link.incarnation:
            return EndCause.CLOSED
        return EndCause.RESTARTED if answer.incarnation > link.incarnation else EndCause.LOST
    if type(answer) is SessionWelcome and answer.name == link.peer and answer.incarnation > link.incarnation:
        return EndCause.RESTARTED
    return EndCause.LOST


def _fault_of_number(incarnation: int, incarnation_max: int | None) -> str:
    """A number that no clock can have given yet would lock its name out for ever: nobody could be above it."""
    if incarnation_max is None or incarnation <= incarnation_max:
        return ""
    return f"incarnation {incarnation} is far beyond the clock here, which allows {incarnation_max}: check the clocks"


def fault_of_version(theirs: int, ours: int = PROTOCOL_VERSION) -> str:
    """Brokers and clients are replaced one after the other, so a release works with the one before it, and with the one
    after it, which promises the same. One further away may say what nobody here understands."""
    if theirs >= 1 and abs(theirs - ours) <= 1:
        return ""
    return f"protocol version {theirs}; this side speaks {ours}, and works with the one before and the one after"


def _fault_of(hello: Hello, me: Identity) -> str:
    if fault := fault_of_version(hello.version):
        return fault
    if hello.peer != me.name:
        return f"this is {me.name}, not {shorten(hello.peer)}"
    if hello.name == me.name:
        return f"{me.name} is the name of this side"
    try:
        check_name(hello.name)
    except NameRefusedError:
        return f"{shorten(hello.name)} is not a name"
    if hello.role not in ROLES and hello.role != NEWCOMER:
        return f"there is no role {shorten(hello.role)}"
    if hello.incarnation < 1 or hello.epoch < 1:
        return "incarnations and sessions are numbered from 1"
    return ""


def shorten(text: str, bytes_max: int = limits.NAME_BYTES) -> str:
    """A peer's text, safe to pass on: not longer than this, and encodable whatever it holds."""
    return text.encode("utf-8", "replace")[:bytes_max].decode("utf-8", "ignore")


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
