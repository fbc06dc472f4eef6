"""What shares a frame: as much as the limits allow, whether it counts against the window or not."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Effect, ProtocolMessage, Transmit
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import MARK_BYTES, Mark
from resprout.edge.messages import CLIENT_MESSAGES, Attend, HeldSubscription, Publish, Subscribed
from resprout.links.flight import START_BYTES, Beginnings
from resprout.links.frames import FRAMES, Bodies, Data, Part, SharedBodies
from resprout.links.link import LinkSession
from resprout.links.options import LinkOptions
from resprout.links.session import MESSAGES_PER_FRAME, Session
from resprout.net.sessions import EncodedBodies
from resprout.order.messages import BROKER_MESSAGES, TOTAL_MESSAGES, Forward, KnownLock, Lock, Submit
from resprout.spread.messages import SPREAD_MESSAGES, InterestConfirmed
from resprout.stacks.resprout.messages import LastTotal, ParcelRows
from resprout.wire.codec import Codec

CODEC = Codec(FRAMES, (*CLIENT_MESSAGES, *SPREAD_MESSAGES, *BROKER_MESSAGES, *TOTAL_MESSAGES, ParcelRows))
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


def framed(messages: Sequence[ProtocolMessage], bodies: Bodies) -> list[Any]:
    link = LinkSession("b1", 1, LinkOptions(), bodies, is_opener=True)
    for message in messages:
        link.put(message, message.cost, message.cost + message.bulk)
    link.stand(5, 1, Beginnings(), 0)
    effects: list[Effect] = []
    link.ship_all(0, effects)
    return [effect.frame for effect in effects if isinstance(effect, Transmit)]


def unframed(frames: Sequence[Any], bodies: Bodies) -> list[Any]:
    """What comes out at the other end."""
    session = Session("b1", 1, LinkOptions(window_bytes=1 << 40), bodies)
    taken = [session.take_part(frame) if isinstance(frame, Part) else session.take(frame) for frame in frames]
    return [message for messages in taken for message in messages]


def total(number: int, size: int, keys: tuple[str, ...] = ()) -> Bundle:
    return Bundle("p", 1, number, 1, 7, "t", keys, Guarantee.TOTAL, b"", pack_payloads([bytes(size)]))


def marks(count: int) -> tuple[Mark, ...]:
    """As long as marks get."""
    return tuple([Mark(f"{number:064}", "eventual", 1 << 53, 1 << 53) for number in range(count)])


def check_that_they_fit(messages: Sequence[ProtocolMessage]) -> None:
    bodies = EncodedBodies(CODEC)
    frames = framed(messages, bodies)
    assert len(frames) > 1, "together they are too large"
    assert unframed(frames, bodies) == list(messages)
    encoder = CODEC.encoder()
    for frame in frames:
        assert len(encoder.encode(frame)) <= limits.FRAME_BYTES


def test_locks_with_large_bundles_do_not_share_a_frame() -> None:
    for make in (Submit, lambda b: Lock(1, 2, b), lambda b: ParcelRows((KnownLock(1, 2, b),))):
        messages = [make(total(number, LARGE)) for number in range(1, 20)]
        check_that_they_fit(messages)


def test_bases_do_not_share_a_frame_when_they_are_long() -> None:
    base = marks(4_000)
    check_that_they_fit([InterestConfirmed(id, base) for id in range(12)])
    check_that_they_fit([Subscribed(id, base) for id in range(12)])
    check_that_they_fit([ParcelRows(tuple(map(LastTotal, base))) for _ in range(12)])
    held = (HeldSubscription(1, "t" * 512, "w" * 4096, base), HeldSubscription(2, "a/#", None, base))
    check_that_they_fit([Attend(1, (), base, held) for _ in range(5)])


def test_keys_take_room_in_a_frame_that_no_window_counts() -> None:
    def bundle(number: int) -> Bundle:
        keys = tuple([f"{number:04}-{key:02}-".ljust(limits.KEY_BYTES, "x") for key in range(64)])
        return total(number, 1, keys)

    for make in (Publish, lambda b: Forward(b, 1), Submit):
        check_that_they_fit([make(bundle(number)) for number in range(1, 257)])


def test_no_mark_takes_more_than_it_is_counted_for() -> None:
    (one, two) = (len(CODEC.encoder().encode(Data(1, 0, 1, (InterestConfirmed(1, marks(n)),)))) for n in (100, 101))
    assert two - one <= MARK_BYTES


SIZES = st.one_of(st.just(0), st.integers(1, 200), st.integers(START_BYTES // 6, 2 * START_BYTES))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(SIZES, SIZES), max_size=400))
def test_frames_hold_everything_once_in_order_and_are_as_few_as_the_limits_allow(sizes: list[tuple[int, int]]) -> None:
    crates = [Crate(number, *size) for number, size in enumerate(sizes)]
    bodies = SharedBodies()
    frames = framed(crates, bodies)
    assert unframed(frames, bodies) == crates
    part_bytes = START_BYTES // 4
    for frame in frames:
        if isinstance(frame, Part):
            assert len(frame.chunk) <= part_bytes < frame.size
        else:
            assert frame.first == 1 + frame.messages[0].number
            assert weight(frame) <= part_bytes
            assert len(frame.messages) <= MESSAGES_PER_FRAME
    for frame, after in pairwise(frames):
        if isinstance(frame, Data) and isinstance(after, Data):
            first = after.messages[0]
            is_full = len(frame.messages) == MESSAGES_PER_FRAME
            assert is_full or weight(frame) + first.cost + first.bulk > part_bytes


def weight(frame: Data[Any]) -> int:
    return sum(crate.cost + crate.bulk for crate in frame.messages)
