"""Whatever arrives in whatever order: no exception, and effects that a driver can carry out."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.core.contract import (
    CancelTimer,
    Close,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Effect,
    Hold,
    Note,
    Open,
    Release,
    Send,
    SetTimer,
    Timer,
    TimerFired,
    Transmit,
    Trickled,
)
from resprout.links.frames import (
    AcknowledgeDue,
    Data,
    Express,
    Goodbye,
    Hello,
    LingerOver,
    Part,
    Parted,
    ReconnectDue,
    SessionWelcome,
    Slice,
    WatchDue,
)
from resprout.links.options import LinkOptions
from tests.links.puppet import Desk, Parcel, Sign
from tests.soak import cases

NAMES = st.sampled_from(("b0", "b1", "b2", "c1")) | st.text(max_size=3)
ROLES = st.sampled_from(("broker", "broker", "client")) | st.text(max_size=3)
NUMBERS = st.integers(0, 3) | st.integers(-2, 70) | st.sampled_from((-(2**63), 2**63 - 1, 2**64 - 1))
LIVES = st.sampled_from((1, 1, 1, 2)) | NUMBERS
CONNECTIONS = st.integers(0, 7)
VERSIONS = st.sampled_from((1, 1, 1, 1, 1, 0))
PARCELS = st.builds(Parcel, st.integers(0, 9), st.integers(0, 30))
SIGNS = st.builds(Sign, st.integers(0, 9))
SLICES: st.SearchStrategy[Any] = st.one_of(
    st.builds(Slice, PARCELS, st.sampled_from((0, 1000, 2000)), st.sampled_from((1000, 2000, 3000))),
    st.binary(max_size=3),
)

FRAMES: st.SearchStrategy[Any] = st.one_of(
    st.builds(Hello, VERSIONS, NAMES, ROLES, LIVES, st.just("b1") | NAMES, st.none() | LIVES, LIVES, NUMBERS, NUMBERS),
    st.builds(Hello, st.just(1), NAMES, ROLES, st.just(1), st.just("b1"), st.none(), LIVES, st.just(0), NUMBERS),
    st.builds(SessionWelcome, VERSIONS, NAMES, ROLES, LIVES, LIVES, NUMBERS, NUMBERS),
    st.builds(SessionWelcome, st.just(1), NAMES, ROLES, st.just(1), LIVES, st.just(0), NUMBERS),
    st.builds(Data, NUMBERS, NUMBERS, NUMBERS, st.lists(PARCELS, max_size=4).map(tuple)),
    st.builds(Data, LIVES, st.just(0), st.just(60), st.lists(PARCELS, max_size=4).map(tuple)),
    st.builds(
        Hello, st.just(1), NAMES, ROLES, st.just(1), st.just("b1"), LIVES, LIVES, LIVES, NUMBERS, NUMBERS, NUMBERS
    ),
    st.builds(Part, LIVES, NUMBERS, NUMBERS, st.booleans(), SLICES),
    st.builds(Part, st.just(1), st.just(0), st.just(3000), st.booleans(), SLICES),
    st.builds(Parted, NUMBERS, NUMBERS, NUMBERS),
    st.builds(Express, LIVES, NUMBERS, st.lists(PARCELS | SIGNS, max_size=4).map(tuple)),
    st.builds(Express, st.just(1), st.just(0), st.lists(SIGNS, max_size=4).map(tuple)),
    st.builds(Goodbye, st.text(max_size=600), st.just(0) | LIVES),
    st.none(),
    st.text(max_size=3),
)
WISHES: st.SearchStrategy[Any] = st.one_of(
    st.builds(Open, NAMES),
    st.builds(Close, NAMES, st.text(max_size=600)),
    st.builds(Send, NAMES, PARCELS | SIGNS | st.just(Parcel(7, 20_000))),
    st.builds(Hold, NAMES),
    st.builds(Release, NAMES),
)
TIMERS: st.SearchStrategy[Timer] = st.one_of(
    st.builds(ReconnectDue, NAMES), st.builds(LingerOver, NAMES), st.builds(WatchDue), st.builds(AcknowledgeDue)
)
MOVES: st.SearchStrategy[tuple[str, Any, Any]] = st.one_of(
    st.tuples(st.just("connect"), CONNECTIONS, st.none() | NAMES),
    st.tuples(st.just("frame"), CONNECTIONS, FRAMES),
    st.tuples(st.just("frame"), CONNECTIONS, FRAMES),
    st.tuples(st.just("frame"), CONNECTIONS, FRAMES),
    st.tuples(st.just("trickle"), CONNECTIONS, st.none()),
    st.tuples(st.just("lose"), CONNECTIONS, st.none() | NAMES),
    st.tuples(st.just("wish"), st.just(0), WISHES),
    st.tuples(st.just("timer"), st.integers(0, 100), TIMERS),
)
OPTIONS = LinkOptions(
    window_bytes=60, ack_messages_max=2, outbox_messages_max=3, broker_messages_max=3, congested_messages=2,
    heartbeat_us=50, silence_us=200, sessions_max=3, greetings_max=3, acquaintances_max=2,
)  # fmt: skip


class Driver:
    """Carries out effects on paper, and knows what cannot be carried out."""

    def __init__(self) -> None:
        self.desk = Desk(options=OPTIONS)
        self.connections: set[int] = set()
        self.timers: set[Timer] = set()
        self.fresh = 10
        self.perform(list(self.desk.started))

    def move(self, kind: str, number: int, what: Any) -> None:
        if kind == "connect":
            connection = number if number and number not in self.connections else self.next_connection()
            self.connections.add(connection)
            self.perform(self.desk.step(Connected(connection, what)))
        elif kind == "frame":
            self.perform(self.desk.arrive(number, what))
        elif kind == "trickle":
            self.perform(self.desk.step(Trickled(number)))
        elif kind == "lose":
            self.connections.discard(number)
            self.perform(self.desk.step(Disconnected(number, what, "gone", refused=number == 0)))
        elif kind == "wish":
            self.perform(self.desk.ask(what))
        else:
            self.desk.now_us += number
            self.timers.discard(what)
            self.perform(self.desk.step(TimerFired(what)))

    def next_connection(self) -> int:
        self.fresh += 1
        return self.fresh

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Transmit):
                assert effect.connection in self.connections
                check_frame(effect.frame)
            elif isinstance(effect, Disconnect):
                self.connections.remove(effect.connection)
            elif isinstance(effect, SetTimer):
                assert effect.at_us >= self.desk.now_us
                self.timers.add(effect.timer)
            elif isinstance(effect, CancelTimer):
                self.timers.discard(effect.timer)
            else:
                assert isinstance(effect, Connect | Note)
        for status in self.desk.links.sessions():
            assert status.unconfirmed <= OPTIONS.outbox_messages_max


def check_frame(frame: Any) -> None:
    assert isinstance(frame, Hello | SessionWelcome | Data | Part | Parted | Express | Goodbye)
    if isinstance(frame, Goodbye):
        assert len(frame.reason.encode()) <= limits.REASON_BYTES
    if isinstance(frame, Data):
        assert frame.first >= 1
        assert frame.received >= 0
        assert frame.grant >= OPTIONS.window_bytes


@settings(
    max_examples=cases(60, 180),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
@given(st.sampled_from((5, 20, 60)).flatmap(lambda size: st.lists(MOVES, min_size=size, max_size=size)))
def test_nothing_that_arrives_is_an_exception(moves: list[tuple[str, Any, Any]]) -> None:
    driver = Driver()
    for kind, number, what in moves:
        driver.move(kind, number, what)


def test_the_paper_driver_sees_sessions_begin_and_break() -> None:
    """The strategy above would prove nothing if its frames never got past the greeting."""
    driver = Driver()
    driver.move("connect", 5, None)
    driver.move("frame", 5, driver.desk.hello("c1"))
    driver.move("frame", 5, Data(1, 0, 1000, (Parcel(1, 10),)))
    driver.move("frame", 5, Data(9, 0, 1000, ()))
    names = [type(event).__name__ for event in driver.desk.puppet.events]
    assert names == ["LinkUp", "Received", "LinkDown"]
    assert driver.connections == set()
