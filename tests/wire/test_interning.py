"""Names travel once per connection and direction."""

import msgspec
import pytest

from resprout.core.bundle import Bundle
from resprout.core.errors import UsageError, WireError
from resprout.wire import bundles as layout
from resprout.wire.codec import FrameDecoder, FrameEncoder

from .examples import CODEC, bundle, publishing

NAME, TOPIC, KEY = "a-publisher-with-a-name", "a/topic/with/some/levels", "a-key-of-some-length"


def named(number: int = 0) -> Bundle:
    return bundle(f"{NAME}-{number}", topic=f"{TOPIC}/{number}", keys=(f"{KEY}-{number}",))


def texts_in(body: bytes) -> list[bool]:
    return [text.encode() in body for text in (NAME, TOPIC, KEY)]


def pair() -> tuple[FrameEncoder, FrameDecoder]:
    return CODEC.encoder(), CODEC.decoder()


def test_a_name_travels_as_text_the_first_time_and_never_again() -> None:
    encoder, decoder = pair()
    first, second = encoder.encode(publishing(named())), encoder.encode(publishing(named()))
    assert texts_in(first) == [True] * 3
    assert texts_in(second) == [False] * 3
    assert decoder.decode(first) == decoder.decode(second) == publishing(named())


def test_a_name_is_known_within_the_frame_that_gives_it() -> None:
    encoder, decoder = pair()
    body = encoder.encode(publishing(named(), named()))
    assert [body.count(text.encode()) for text in (NAME, TOPIC, KEY)] == [1, 1, 1]
    assert decoder.decode(body) == publishing(named(), named())


def test_a_decoded_name_is_one_object_however_often_it_comes() -> None:
    encoder, decoder = pair()
    frame = decoder.decode(encoder.encode(publishing(named(), named())))
    one, two = (message.bundle for message in frame.messages)
    assert one.publisher is two.publisher
    assert one.topic is two.topic
    assert one.keys[0] is two.keys[0]


def test_another_connection_knows_nothing() -> None:
    encoder = CODEC.encoder()
    encoder.encode(publishing(named()))
    with pytest.raises(WireError, match="never given"):
        CODEC.decoder().decode(encoder.encode(publishing(named())))


def test_an_incarnation_is_an_origin_of_its_own() -> None:
    encoder, decoder = pair()
    frame = publishing(bundle(incarnation=1), bundle(incarnation=2), bundle(incarnation=1))
    assert decoder.decode(encoder.encode(frame)) == frame


def test_full_tables_stay_as_they_are_and_later_names_travel_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("ORIGINS", "TOPICS", "KEYS"):
        monkeypatch.setattr(layout, table, 2)
    encoder, decoder = pair()
    frame = publishing(*map(named, range(4)))
    assert decoder.decode(encoder.encode(frame)) == frame
    again = encoder.encode(frame)
    for number in range(4):
        in_full = number >= 2
        assert (f"{NAME}-{number}".encode() in again) is in_full
        assert (f"{TOPIC}/{number}".encode() in again) is in_full
        assert (f"{KEY}-{number}".encode() in again) is in_full
    assert decoder.decode(again) == frame


@pytest.mark.parametrize(
    ("column", "pattern"), [(0, ["c{}", 1, 0, 0]), (4, "topic/{}"), (5, ["key-{}"])], ids=["origin", "topic", "key"]
)
def test_a_peer_cannot_make_a_table_grow_beyond_its_size(
    monkeypatch: pytest.MonkeyPatch, column: int, pattern: str | list[object]
) -> None:
    for table in ("ORIGINS", "TOPICS", "KEYS"):
        monkeypatch.setattr(layout, table, 2)

    def body(value: object) -> bytes:
        columns: list[object] = [["c", 1, 0, 0], 1, 0, 4, "t", [], None, b"\x91\xc4\x00"]
        columns[column] = value
        return msgspec.msgpack.encode([3, 1, 0, 0, [[16, columns]]])

    decoder = CODEC.decoder()
    for n in range(3):
        decoder.decode(body(_with_number(pattern, n)))
    decoder.decode(body([1] if column == 5 else 1))
    with pytest.raises(WireError, match="never given"):
        decoder.decode(body([2] if column == 5 else 2))


def _with_number(pattern: str | list[object], number: int) -> object:
    if isinstance(pattern, str):
        return pattern.format(number)
    return [part.format(number) if isinstance(part, str) else part for part in pattern]


def test_the_real_tables_fill_up_and_go_on() -> None:
    encoder, decoder = pair()
    for start in range(0, layout.TOPICS + 256, 256):
        frame = publishing(*(bundle(f"c{n}", topic=f"t{n}", keys=(f"k{n}",)) for n in range(start, start + 256)))
        assert decoder.decode(encoder.encode(frame)) == frame
    for number, in_full in ((layout.TOPICS - 1, False), (layout.TOPICS, True)):
        body = encoder.encode(publishing(bundle(f"c{number}", topic=f"t{number}", keys=(f"k{number}",))))
        assert (f"t{number}".encode() in body) is in_full


@pytest.mark.parametrize("broken", [bundle(stamp=2**100), bundle("\ud800"), bundle(keys=("\udfff",))])
def test_a_frame_that_cannot_be_encoded_names_nothing(broken: Bundle) -> None:
    encoder, decoder = pair()
    with pytest.raises(UsageError, match="cannot be encoded"):
        encoder.encode(publishing(named(), broken))
    for _ in range(2):
        assert decoder.decode(encoder.encode(publishing(named()))) == publishing(named())


def test_a_frame_that_is_too_large_names_nothing() -> None:
    encoder, decoder = pair()
    large = bundle("large", payloads=[bytes(1 << 20)])
    with pytest.raises(UsageError, match="a frame has"):
        encoder.encode(publishing(named(), *[large] * 5))
    assert decoder.decode(encoder.encode(publishing(named()))) == publishing(named())


def test_a_decoder_that_refused_once_refuses_for_ever() -> None:
    encoder, decoder = pair()
    with pytest.raises(WireError, match="malformed"):
        decoder.decode(b"\xc1")
    with pytest.raises(WireError, match="earlier refusal"):
        decoder.decode(encoder.encode(publishing(named())))


def test_a_life_that_no_client_can_have_is_refused() -> None:
    """Lives are numbered from 1. A member repeated publications of a client as those of its life 0, and the broker that
    serves the client took them for new."""
    frame = publishing(bundle(incarnation=0))
    with pytest.raises(WireError, match="an incarnation is a number from 1"):
        CODEC.decoder().decode(CODEC.encoder().encode(frame))
