"""Which types a codec takes."""

from typing import Annotated, Any

import msgspec
import pytest

from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage
from resprout.core.errors import UsageError, WireError
from resprout.edge.messages import CLIENT_MESSAGES, Publish
from resprout.links.frames import Data, Goodbye
from resprout.wire.codec import Codec

from .examples import FRAMES, data


class Twin(ProtocolMessage, frozen=True, tag=16):
    number: int


class Mapped(msgspec.Struct, frozen=True, tag=200):
    number: int


class Untagged(ProtocolMessage, frozen=True):
    number: int


class Anything(ProtocolMessage, frozen=True, tag=201):
    hidden: Any


class Unordered(ProtocolMessage, frozen=True, tag=202):
    names: frozenset[str]


class Endless(ProtocolMessage, frozen=True, tag=203):
    inner: "Endless | None"


class Rich(ProtocolMessage, frozen=True, tag=204):
    """A message as a stack may have it."""

    seen: dict[tuple[str, str], int]
    pool: tuple[tuple[Bundle, int], ...]
    places: list[str]
    level: Annotated[int, msgspec.Meta(ge=-1, le=100)]
    weight: float
    either: int | str | None
    publishing: Publish
    raw: bytes


RICH = Codec((Data, Goodbye), (*CLIENT_MESSAGES, Rich))


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (Twin, "tag 16 is taken by Publish and by Twin"),
        (Publish, "tag 16 is taken by Publish and by Publish"),
        (Mapped, "array-like"),
        (Untagged, "integer tag"),
        (Anything, "field 'hidden' of Anything"),
        (Unordered, "field 'names' of Unordered"),
        (Endless, "contains itself"),
    ],
)
def test_types_that_cannot_travel_are_refused_when_the_codec_is_made(extra: type[msgspec.Struct], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Codec(FRAMES, (*CLIENT_MESSAGES, extra))


def test_a_message_may_not_take_the_tag_of_a_frame() -> None:
    class Intruder(ProtocolMessage, frozen=True, tag=4):
        number: int

    with pytest.raises(UsageError, match="tag 4 is taken by Goodbye and by Intruder"):
        Codec(FRAMES, (Intruder,))


@pytest.mark.parametrize(("frames", "messages"), [((), CLIENT_MESSAGES), (FRAMES, ())])
def test_a_codec_needs_frames_and_messages(frames: Any, messages: Any) -> None:
    with pytest.raises(UsageError, match="needs frames and messages"):
        Codec(frames, messages)


def test_one_message_type_is_enough() -> None:
    codec = Codec((Data,), (Twin,))
    assert codec.decoder().decode(codec.encoder().encode(data(Twin(5)))) == data(Twin(5))


def rich(**changes: Any) -> Rich:
    from .examples import bundle

    plain: dict[str, Any] = {
        "seen": {("c0", "ordered"): 5}, "pool": ((bundle(), 3), (bundle(first=2), 0)), "places": ["b0", "b1"],
        "level": -1, "weight": 0.5, "either": "text", "publishing": Publish(bundle(first=3)), "raw": b"raw",
    }  # fmt: skip
    return Rich(**(plain | changes))


@pytest.mark.parametrize("either", ["text", 12, None])
def test_a_rich_message_comes_back_as_it_was(either: Any) -> None:
    frame = data(rich(either=either))
    assert RICH.decoder().decode(RICH.encoder().encode(frame)) == frame
    steady = RICH.encoder()
    steady.encode(frame)
    references = 3 + 3  # origin and topic of three bundles
    assert 0 <= RICH.frame_bytes(frame) - 4 - len(steady.encode(frame)) <= 2 * references


@pytest.mark.parametrize(
    "changes",
    [
        {"seen": {("c0", "ordered"): -1}},
        {"seen": {("x" * 5000, "ordered"): 1}},
        {"places": ["x" * 5000]},
        {"pool": ((rich().pool[0][0], 2**63),)},
        {"level": -2},
        {"level": 101},
        {"weight": float("nan")},
        {"either": -1},
        {"either": "é" * 2049},
    ],
)
def test_every_part_of_a_rich_message_is_checked(changes: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        RICH.decoder().decode(RICH.encoder().encode(data(rich(**changes))))
