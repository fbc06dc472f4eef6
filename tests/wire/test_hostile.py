"""Whatever bytes come: a valid frame or a WireError, and nothing else."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.core.bundle import Bundle
from resprout.core.errors import WireError
from resprout.core.guarantee import ALL_LEVELS
from resprout.core.message_fields import NUMBER_MAX, STAMP_MAX
from resprout.edge.messages import Attend, Delivery, Publish
from resprout.links.frames import Data, Goodbye
from resprout.overlay.messages import Life, Place, Tell
from resprout.stacks.resprout import RESPROUT
from resprout.stacks.resprout.durable_state import DurableHeard
from resprout.stacks.resprout.messages import ListenersChanged, ListenersHeard
from resprout.stacks.resprout.pauses import PausedReader, ReadersPaused
from resprout.wire.codec import PREAMBLE, FrameReader, FrameWriter
from tests.footprint import kept_by
from tests.soak import cases
from tests.wire.examples import CODEC, FRAMES, HELLO, WELCOME, bundle, data, frames, publishing, steady

encode = msgspec.msgpack.encode


def assert_keeps_the_rules(frame: Any) -> None:
    """What decoding let through must be what the rest of the system relies on."""
    assert type(frame) in FRAMES
    CODEC.check(frame)
    for message in getattr(frame, "messages", ()):
        assert type(message) in RESPROUT.messages
        if hasattr(message, "bundle"):
            assert_is_a_bundle(message.bundle)


def assert_is_a_bundle(found: Bundle) -> None:
    limits.check_name(found.publisher)
    limits.check_topic(found.topic)
    assert limits.check_keys(found.keys) == found.keys
    assert 1 <= found.first <= found.last <= NUMBER_MAX
    assert 1 <= found.count <= limits.BUNDLE_MESSAGES
    assert 0 <= found.stamp <= STAMP_MAX
    assert 1 <= found.incarnation <= NUMBER_MAX
    assert len(found.payloads) + len(found.attributes) <= limits.BUNDLE_BYTES


def decoded_or_refused(body: bytes) -> bool:
    """Any exception but WireError fails the test by itself."""
    try:
        frame = CODEC.decoder().decode(body)
    except WireError as error:
        assert 0 < len(str(error)) < 4096
        return False
    assert_keeps_the_rules(frame)
    return True


# -- fuzz -------------------------------------------------------------------------------------------------------------

plain_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=10),
        st.binary(max_size=10),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=9), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=20,
)  # fmt: skip


@given(st.binary(max_size=200))
@settings(steady, max_examples=cases(100, 300))
def test_arbitrary_bytes(body: bytes) -> None:
    decoded_or_refused(body)


@given(st.sampled_from([1, 2, 3, 4, 5]), st.lists(plain_values, max_size=9))
@settings(steady, max_examples=cases(40, 120))
def test_arbitrary_values_behind_a_known_tag(tag: int, fields: list[Any]) -> None:
    decoded_or_refused(encode([tag, *fields]))


@given(st.lists(plain_values, min_size=8, max_size=8), st.integers(0, 255))
@settings(steady, max_examples=cases(40, 120))
def test_arbitrary_columns_of_a_bundle(columns: list[Any], replaced: int) -> None:
    valid = [["c0", 1, 0, 0], 1, 7, 4, "bank/pt", [], None, encode([b"x"])]
    mixed = [columns[place] if replaced >> place & 1 else valid[place] for place in range(8)]
    decoded_or_refused(encode([3, 1, 0, 0, [[16, mixed]]]))


@given(frames, st.data())
@settings(steady, max_examples=cases(130, 400))
def test_mutated_frames(frame: Any, source: st.DataObject) -> None:
    body = bytearray(CODEC.encoder().encode(frame))
    place = source.draw(st.integers(0, len(body) - 1))
    match source.draw(st.sampled_from(["flip", "cut", "insert", "replace", "remove"])):
        case "flip":
            body[place] ^= 1 << source.draw(st.integers(0, 7))
        case "cut":
            assert not decoded_or_refused(bytes(body[:place]))
        case "insert":
            body[place:place] = source.draw(st.binary(min_size=1, max_size=8))
        case "replace":
            body[place] = source.draw(st.integers(0, 255))
        case "remove":
            del body[place]
    decoded_or_refused(bytes(body))


def test_thousands_of_random_mutations_of_a_stream() -> None:
    rng = random.Random(2024)
    writer = FrameWriter(CODEC)
    stream = b"".join(map(writer.write, SAMPLES))
    accepted = 0
    for _ in range(cases(3_000, 10_000)):
        broken = bytearray(stream)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(PREAMBLE), len(broken))
            if rng.random() < 0.7:
                broken[place] = rng.choice((rng.randrange(256), 0xC1, 0xDD, 0xFF, 0x00, broken[place] ^ 1))
            elif rng.random() < 0.5:
                del broken[place : place + rng.randint(1, 6)]
            else:
                broken[place:place] = rng.randbytes(rng.randint(1, 6))
        reader = FrameReader(CODEC)
        try:
            for frame in reader.feed(bytes(broken)):
                assert_keeps_the_rules(frame)
                accepted += 1
        except WireError:
            assert kept_by(reader) == 0
    assert accepted > 0  # some mutations only change a number: both outcomes were seen


SAMPLES: list[Any] = [
    HELLO,
    WELCOME,
    publishing(bundle(), bundle(keys=("k1", "other#k2")), bundle("c9", first=2**40, rows=[{"amount": 12}])),
    data(Delivery(bundle(), 3, 10, (0,))),
    Goodbye("done"),
]


# -- known tricks -----------------------------------------------------------------------------------------------------


def body_of(message: list[Any]) -> bytes:
    return encode([3, 1, 0, 0, [message], False])


def publish_body(**changes: Any) -> bytes:
    columns: dict[str, Any] = {
        "origin": ["c0", 1, 0, 0], "first": 1, "stamp": 7, "shape": 4 + 2, "topic": "bank/pt", "keys": [],
        "attributes": None, "payloads": encode([b"x"]),
    }  # fmt: skip
    assert changes.keys() <= columns.keys()
    return body_of([16, list((columns | changes).values()), ALL_LEVELS])


def test_the_frame_written_by_hand_is_one() -> None:
    frame = CODEC.decoder().decode(publish_body())
    assert frame == Data(1, 0, 0, (Publish(bundle(payloads=[b"x"])),))
    assert CODEC.encoder().encode(frame) == publish_body()


HALVES = 2**31
BAD_COLUMNS: list[dict[str, Any]] = [
    {"origin": 0}, {"origin": -1}, {"origin": 2**64 - 1}, {"origin": None}, {"origin": True}, {"origin": "c0"},
    {"origin": []}, {"origin": ["c0", 1, 0]}, {"origin": ["c0", 1, 0, 0, 0]}, {"origin": {"c0": 1}},
    {"origin": ["", 1, 0, 0]}, {"origin": ["c 0", 1, 0, 0]}, {"origin": ["c" * 65, 1, 0, 0]}, {"origin": [0, 1, 0, 0]},
    {"origin": ["c" * 3_000_000, 1, 0, 0]}, {"origin": ["c0", -1, 0, 0]}, {"origin": ["c0", 2**63, 0, 0]},
    {"origin": ["c0", 1.0, 0, 0]}, {"origin": ["c0", 1, -1, 0]}, {"origin": ["c0", 1, HALVES, 0]},
    {"origin": ["c0", 1, 0, HALVES]}, {"origin": ["c0", 1, 0, None]},
    {"first": 0}, {"first": -1}, {"first": 2**32}, {"first": 1.0}, {"first": True}, {"first": None}, {"first": "1"},
    {"first": 2**32 - 1, "shape": 8, "origin": ["c0", 1, HALVES - 1, 0]},
    {"stamp": -1}, {"stamp": 2**32}, {"stamp": 1.0}, {"stamp": None}, {"stamp": False},
    {"shape": 0}, {"shape": 3}, {"shape": 1025 * 4}, {"shape": -4}, {"shape": 2**63}, {"shape": 4.0}, {"shape": None},
    {"topic": 0}, {"topic": -1}, {"topic": ""}, {"topic": None}, {"topic": "bank/+"}, {"topic": "#"}, {"topic": "a\0"},
    {"topic": "x" * 513}, {"topic": "é" * 257}, {"topic": "/" * 32}, {"topic": b"bank"}, {"topic": "x" * 3_000_000},
    {"keys": None}, {"keys": 0}, {"keys": ""}, {"keys": {}}, {"keys": [0]}, {"keys": [-1]}, {"keys": [""]},
    {"keys": [None]}, {"keys": ["b", "a"]}, {"keys": ["a", "a"]}, {"keys": ["a", 0]}, {"keys": ["k" * 257]},
    {"keys": ["+#a"]}, {"keys": ["t#"]}, {"keys": ["#a"]}, {"keys": ["a\0"]}, {"keys": [["a"]]},
    {"keys": [f"{n:03}" for n in range(65)]}, {"keys": ["t" * 513 + "#k"]}, {"keys": ["t#" + "k" * 257]},
    {"attributes": ""}, {"attributes": []}, {"attributes": 0}, {"attributes": "text"},
    {"payloads": None}, {"payloads": "text"}, {"payloads": []}, {"payloads": bytes(limits.BUNDLE_BYTES + 1)},
    {"payloads": bytes(limits.PAYLOAD_BYTES), "attributes": bytes(4097)},
]  # fmt: skip


@pytest.mark.parametrize("changes", BAD_COLUMNS, ids=lambda changes: str(changes)[:50])
def test_a_bundle_with_a_bad_column_is_refused(changes: dict[str, Any]) -> None:
    assert not decoded_or_refused(publish_body(**changes))


@pytest.mark.parametrize(
    "columns", [None, 8, "12345678", b"12345678", {}, [], [0] * 7, [0] * 9, dict.fromkeys(range(8), 0)]
)
def test_what_is_no_array_of_columns_is_refused(columns: Any) -> None:
    assert not decoded_or_refused(body_of([16, columns]))


BAD_MESSAGES: list[list[Any]] = [
    [], [None], ["16"], [99], [3], [16], [17], [17, -1, "a", None], [17, 2**63, "a", None], [17, 1.5, "a", None],
    [17, 1, "x" * 513, None], [17, 1, "a", "x" * 4097], [17, 1, "a", 5], [17, 1, b"a", None], [17, True, "a", None],
    [19, "bank/#"], [19, ""], [19, "é" * 257], [21, -1], [32, "x" * 65, [], 0], [32, "s", [4], 0], [32, "s", [-1], 0],
    [34, 1, "x" * 513], [34, 1, "é" * 257], [37, "ordered", 3, 1], [37, "ordered", 0, -1], [37, "o" * 65, 0, 1],
    [38, "ordered", -1, 1, ""], [38, "ordered", 1, 2**63, ""],
]  # fmt: skip


@pytest.mark.parametrize("message", BAD_MESSAGES, ids=lambda message: str(message)[:50])
def test_a_message_with_a_bad_field_is_refused(message: list[Any]) -> None:
    assert not decoded_or_refused(body_of(message))


def _told(place: Place) -> Tell:
    return Tell(1, 1, (place,), None)


def _paused(reader: str) -> ReadersPaused:
    return ReadersPaused(Life("b1", 1), 1, (PausedReader(reader, ("t",), 0, 0),))


PLACE = Place("b1", 1, 1, "b0", ("b0",), "")


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (_told(PLACE), _told(msgspec.structs.replace(PLACE, neighbours=("b0", "\u202e")))),
        (_told(PLACE), _told(msgspec.structs.replace(PLACE, parent="\x1b[2J"))),
        (
            _told(msgspec.structs.replace(PLACE, address="h" * 300)),
            _told(msgspec.structs.replace(PLACE, address="h" * 301)),
        ),
        (_paused("=p"), _paused("x" * 129)),
        (ListenersHeard(("=p",)), ListenersHeard(("x" * 129,))),
        (ListenersChanged(("=p",), ()), ListenersChanged(("x" * 129,), ())),
        (Attend(0, ("b0",)), Attend(0, ("b 0",))),
        (DurableHeard("orders", 1, 1), DurableHeard("x" * 65, 1, 1)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_name_that_its_receiver_would_pass_on_keeps_the_rules_of_names_in_every_field(good: Any, bad: Any) -> None:
    """Otherwise the next receiver refuses it, and an honest client or newcomer leaves the honest broker that passed
    it on: a place whose neighbour is called `\\u202e` became a successor, of which every client was told."""
    assert decoded_or_refused(encode(Data(1, 0, 1, (good,))))
    assert not decoded_or_refused(encode(Data(1, 0, 1, (bad,))))


@pytest.mark.parametrize("offsets", [[-1], [2**63], [0, 1, -5], ["0"], [0.0], 5])
def test_bad_offsets_of_a_delivery_are_refused(offsets: Any) -> None:
    columns = [["c0", 1, 0, 0], 1, 7, 6, "t", [], None, encode([b"x"])]
    assert decoded_or_refused(body_of([36, columns, 0, 0, [0]]))
    assert not decoded_or_refused(body_of([36, columns, 0, 0, offsets]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", -1), ("version", 2**63), ("name", ""), ("name", "b 1"), ("name", "b" * 65), ("name", b"b1"),
        ("role", "r" * 65), ("incarnation", -1), ("peer", "p" * 65), ("epoch", -1), ("received", 2**64 - 1),
        ("grant", None), ("grant", float("nan")),
    ],
)  # fmt: skip
def test_a_hello_with_a_bad_field_is_refused(field: str, value: Any) -> None:
    assert decoded_or_refused(encode(HELLO))
    assert not decoded_or_refused(encode(msgspec.structs.replace(HELLO, **{field: value})))


@pytest.mark.parametrize("tag", [0, 5, 16, -1, "4", None, True, 4.0, 2**64 - 1])
def test_a_frame_with_an_unknown_tag_is_refused(tag: Any) -> None:
    assert not decoded_or_refused(encode([tag, "bye"]))


def test_a_reason_beyond_its_limit_is_refused() -> None:
    assert decoded_or_refused(encode([4, "x" * limits.REASON_BYTES]))
    assert not decoded_or_refused(encode([4, "x" * (limits.REASON_BYTES + 1)]))
    assert not decoded_or_refused(encode([4, "é" * (limits.REASON_BYTES // 2 + 1)]))


def test_more_messages_than_a_frame_may_hold_are_refused() -> None:
    assert decoded_or_refused(encode([3, 1, 0, 0, [[21, 1]] * limits.FRAME_ITEMS]))
    assert not decoded_or_refused(encode([3, 1, 0, 0, [[21, 1]] * (limits.FRAME_ITEMS + 1)]))


def test_a_body_beyond_the_limit_is_refused() -> None:
    assert not decoded_or_refused(b"\xc4" + bytes(limits.FRAME_BYTES))


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xc1", b"\x93", encode([4, "bye"]) + b"\xc0", encode([4, "bye"]) * 2, b"\x92\x04\xa2\xff\xfe",
        b"\x92\x04\xa3\xed\xa0\x80", b"\xdd\xff\xff\xff\xff\x04", b"\xdf\xff\xff\xff\xff",
        b"\x92\x04\xdb\xff\xff\xff\xff",
        b"\x95\x03\x01\x00\x00\xdd\xff\xff\xff\xff", b"\x92\x04\xd6\xff\xff\xff\xff\xff", b"\x92\x04\xc7\x02\x05ab",
    ],
)  # fmt: skip
def test_bytes_that_are_no_single_frame_are_refused(body: bytes) -> None:
    assert not decoded_or_refused(body)


@pytest.mark.parametrize("opening", [b"\x91", b"\xdc\xff\xff", b"\xdd\x00\xff\xff\xff", b"\x81\xa1a", b"\x81\x91"])
@pytest.mark.parametrize("before", [b"", b"\x95\x03\x01\x00\x00\x91\x92\x10", b"\x93\x04\xa1x"])
def test_deep_nesting_is_refused_wherever_it_stands(opening: bytes, before: bytes) -> None:
    assert not decoded_or_refused(before + opening * 100_000)


def test_invalid_unicode_inside_a_bundle_is_refused() -> None:
    assert not decoded_or_refused(publish_body(topic="bank/pt").replace(b"bank", b"ba\xff\xfe"))
