"""What shares a frame: as much as the limits allow, whether it counts against the window or not."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import ProtocolMessage
from resprout.core.guarantee import Guarantee
from resprout.core.marks import MARK_BYTES, Mark
from resprout.edge.messages import CLIENT_MESSAGES, Attend, HeldSubscription, Publish, Subscribed
from resprout.links.frames import Data
from resprout.links.options import LinkOptions
from resprout.links.session import BYTES_PER_FRAME, MESSAGES_PER_FRAME, Session
from resprout.order.messages import BROKER_MESSAGES, Forward
from resprout.order.total_messages import (
    TOTAL_MESSAGES,
    GrantedLock,
    LastTotals,
    Lock,
    LockReport,
    Submit,
    WelcomeLock,
)
from resprout.spread.messages import SPREAD_MESSAGES, InterestConfirmed
from resprout.wire.codec import Codec

CODEC = Codec((Data,), (*CLIENT_MESSAGES, *SPREAD_MESSAGES, *BROKER_MESSAGES, *TOTAL_MESSAGES))
LARGE = 300_000


class Crate(ProtocolMessage, frozen=True, tag=251):
    """Takes room in a frame, in the window, or in both."""

    number: int
    size: int
    hidden: int

    @property
    def cost(self) -> int:
        return self.size

    @property
    def bulk(self) -> int:
        return self.hidden


def framed(messages: Sequence[ProtocolMessage]) -> list[Data[Any]]:
    session = Session("b1", 1, LinkOptions())
    for message in messages:
        session.put(message, message.cost)
    return session.frames()


def total(number: int, size: int, keys: tuple[str, ...] = ()) -> Bundle:
    return Bundle("p", 1, number, 1, 7, "t", keys, Guarantee.TOTAL, b"", pack_payloads([bytes(size)]))


def marks(count: int) -> tuple[Mark, ...]:
    """As long as marks get."""
    return tuple([Mark(f"{number:064}", "eventual", 1 << 62, 1 << 62) for number in range(count)])


def check_that_they_fit(messages: Sequence[ProtocolMessage]) -> None:
    frames = framed(messages)
    assert len(frames) > 1, "together they are too large"
    assert [message for frame in frames for message in frame.messages] == list(messages)
    encoder = CODEC.encoder()
    for frame in frames:
        assert len(encoder.encode(frame)) <= limits.FRAME_BYTES


def test_locks_with_large_bundles_do_not_share_a_frame_though_they_cost_nothing() -> None:
    kinds = (Submit, lambda b: Lock(1, 2, b), lambda b: LockReport(1, 2, b), lambda b: GrantedLock(1, 2, b))
    for make in (*kinds, lambda b: WelcomeLock(1, 2, b, False)):
        messages = [make(total(number, LARGE)) for number in range(1, 20)]
        assert all(message.cost == 0 for message in messages)
        check_that_they_fit(messages)


def test_bases_do_not_share_a_frame_when_they_are_long() -> None:
    base = marks(4_000)
    check_that_they_fit([InterestConfirmed(id, base) for id in range(12)])
    check_that_they_fit([Subscribed(id, base) for id in range(12)])
    check_that_they_fit([LastTotals(base) for _ in range(12)])
    held = (HeldSubscription(1, "t" * 512, "w" * 4096, base), HeldSubscription(2, "a/#", None, base))
    check_that_they_fit([Attend(1, (), base, held) for _ in range(5)])


def test_keys_take_room_in_a_frame_that_no_window_counts() -> None:
    def bundle(number: int) -> Bundle:
        keys = tuple([f"{number:04}-{key:02}-".ljust(limits.KEY_BYTES, "x") for key in range(64)])
        return total(number, 1, keys)

    for make in (Publish, lambda b: Forward(b, 1), Submit):
        check_that_they_fit([make(bundle(number)) for number in range(1, 257)])


def test_no_mark_takes_more_than_it_is_counted_for() -> None:
    (one, two) = (len(CODEC.encoder().encode(Data(1, 0, 1, (LastTotals(marks(n)),)))) for n in (100, 101))
    assert two - one <= MARK_BYTES


SIZES = st.one_of(st.just(0), st.integers(1, 200), st.integers(BYTES_PER_FRAME // 3, 2 * BYTES_PER_FRAME))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(SIZES, SIZES), max_size=400))
def test_frames_hold_everything_once_in_order_and_are_as_few_as_the_limits_allow(sizes: list[tuple[int, int]]) -> None:
    crates = [Crate(number, *size) for number, size in enumerate(sizes)]
    frames = framed(crates)
    assert [message for frame in frames for message in frame.messages] == crates
    assert [frame.first for frame in frames] == [1 + frame.messages[0].number for frame in frames]
    weights = [[crate.cost + crate.bulk for crate in frame.messages] for frame in frames]
    for weight in weights:
        assert len(weight) == 1 or sum(weight) <= BYTES_PER_FRAME
        assert len(weight) <= MESSAGES_PER_FRAME
    for weight, after in pairwise(weights):
        assert len(weight) == MESSAGES_PER_FRAME or sum(weight) + after[0] > BYTES_PER_FRAME
