"""Streams of bytes: the preamble, lengths, pieces of any size."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.core.errors import UsageError, WireError
from resprout.links.frames import Goodbye
from resprout.wire.codec import PREAMBLE, FrameReader, FrameWriter, common_version
from tests.footprint import kept_by
from tests.wire.examples import CODEC, bundle, frames, publishing, steady


def stream_of(conversation: list[Any]) -> bytes:
    writer = FrameWriter(CODEC)
    return b"".join(map(writer.write, conversation))


CONVERSATION: list[Any] = [publishing(bundle()), Goodbye("one"), publishing(bundle(first=2), bundle("c1")), Goodbye("")]


def test_a_stream_begins_with_one_preamble() -> None:
    stream = stream_of(CONVERSATION)
    assert stream.startswith(PREAMBLE)
    assert stream.count(PREAMBLE) == 1


def test_many_frames_in_one_chunk_come_in_order() -> None:
    reader = FrameReader(CODEC)
    assert reader.feed(stream_of(CONVERSATION)) == CONVERSATION
    assert reader.version == 1
    reader.finish()


def test_a_stream_cut_in_two_at_every_place_gives_the_same_frames() -> None:
    stream = stream_of(CONVERSATION)
    for cut in range(len(stream) + 1):
        reader = FrameReader(CODEC)
        assert reader.feed(stream[:cut]) + reader.feed(stream[cut:]) == CONVERSATION
        reader.finish()


def test_single_bytes_give_the_same_frames_as_soon_as_they_are_complete() -> None:
    stream, found, reader = stream_of(CONVERSATION), [], FrameReader(CODEC)
    ends = [len(stream_of(CONVERSATION[:count])) for count in range(1, len(CONVERSATION) + 1)]
    for place, byte in enumerate(stream, start=1):
        found += reader.feed(bytes([byte]))
        assert len(found) == sum(place >= end for end in ends)
    assert found == CONVERSATION


@given(st.lists(frames, max_size=5), st.lists(st.integers(1, 60), min_size=1, max_size=20))
@settings(steady, max_examples=100)
def test_pieces_of_any_sizes_give_the_same_frames(conversation: list[Any], sizes: list[int]) -> None:
    stream, found, reader, at, turn = stream_of(conversation), [], FrameReader(CODEC), 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        found += reader.feed(memoryview(stream)[at : at + size])
        at, turn = at + size, turn + 1
    assert found == conversation


def test_a_frame_of_the_largest_size_passes_in_pieces() -> None:
    # Four bundles of the largest payload do not fit beside their headers; three and a filler do.
    frame = publishing(*(bundle(first=n, payloads=[bytes(limits.PAYLOAD_BYTES)]) for n in (1, 2, 3)))
    stream, reader, found = stream_of([frame, Goodbye("end")]), FrameReader(CODEC), []
    for at in range(0, len(stream), 65_536):
        found += reader.feed(stream[at : at + 65_536])
    assert found == [frame, Goodbye("end")]


@pytest.mark.parametrize("length", [0, limits.FRAME_BYTES + 1, 2**31, 2**32 - 1])
def test_a_length_out_of_bounds_is_refused_before_its_body(length: int) -> None:
    reader = FrameReader(CODEC)
    reader.feed(PREAMBLE)
    with pytest.raises(WireError, match="announced"):
        reader.feed(length.to_bytes(4, "big"))


def test_a_reader_keeps_less_than_one_frame() -> None:
    reader = FrameReader(CODEC)
    reader.feed(PREAMBLE + (limits.FRAME_BYTES).to_bytes(4, "big"))
    before = kept_by(reader)
    for _ in range(63):
        assert reader.feed(bytes(65_536)) == []
    assert kept_by(reader) == before + 63 * 65_536
    with pytest.raises(WireError):
        reader.feed(bytes(200_000))
    assert kept_by(reader) == before - 4


def test_after_a_refusal_every_chunk_is_refused() -> None:
    reader = FrameReader(CODEC)
    with pytest.raises(WireError, match="does not speak Resprout"):
        reader.feed(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(WireError, match="does not speak Resprout"):
        reader.feed(stream_of(CONVERSATION))


@pytest.mark.parametrize("cut", [0, 3, 9, 20])
def test_a_stream_that_ends_inside_something_says_so(cut: int) -> None:
    reader = FrameReader(CODEC)
    reader.feed(stream_of(CONVERSATION)[:cut])
    with pytest.raises(WireError, match="closed the connection inside"):
        reader.finish()


def test_a_peer_of_another_version_is_refused_with_both_ranges() -> None:
    reader = FrameReader(CODEC)
    with pytest.raises(WireError, match=r"wire versions 7 to 9, this side 1 to 1"):
        reader.feed(b"RSPT\x00\x07\x00\x09")


@pytest.mark.parametrize(
    ("theirs", "ours", "common"),
    [((1, 1), (1, 3), 1), ((2, 5), (1, 3), 3), ((3, 3), (1, 3), 3), ((1, 9), (4, 6), 6), ((0, 65_535), (1, 1), 1)],
)
def test_the_newest_common_version_is_used(theirs: tuple[int, int], ours: tuple[int, int], common: int) -> None:
    preamble = b"RSPT" + theirs[0].to_bytes(2, "big") + theirs[1].to_bytes(2, "big")
    assert common_version(preamble, *ours) == common


@pytest.mark.parametrize(("oldest", "newest"), [(2, 3), (0, 0), (3, 1)])
def test_no_common_version_is_refused(oldest: int, newest: int) -> None:
    with pytest.raises(WireError, match="none in common"):
        common_version(b"RSPT" + oldest.to_bytes(2, "big") + newest.to_bytes(2, "big"), 1, 1)


def test_a_refused_frame_leaves_the_writer_as_it_was() -> None:
    writer = FrameWriter(CODEC)
    with pytest.raises(UsageError, match="is not a frame"):
        writer.write("no frame")
    assert FrameReader(CODEC).feed(writer.write(Goodbye("fine"))) == [Goodbye("fine")]
