"""Sizes told without encoding are those of the encoding."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.bundle import Bundle
from resprout.edge.messages import Delivery
from resprout.links.frames import Data
from resprout.wire.bundles import LOW_MASK, ORIGINS
from resprout.wire.sizes import bundle_bytes, number_bytes, ordering_bytes, text_bytes
from tests.soak import cases

from .examples import CODEC, INT64_MAX, bundle, bundles, data, frames, numbers, steady

encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode
WIDEST_HOPS = 65_535


def columns_of(body: bytes) -> list[Any]:
    """The columns of the only bundle in a Data frame with one message, without the codec's help."""
    columns: list[Any] = decode(body)[4][0][1]
    return columns


def steady_body(frame: Data[Any], warm: Data[Any] | None = None) -> bytes:
    encoder = CODEC.encoder()
    if warm is not None:
        encoder.encode(warm)
    encoder.encode(frame)
    return encoder.encode(frame)


@given(
    st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([s * 2**n + d for s in (1, -1) for n in range(63) for d in (-1, 0, 1)])
)
@settings(steady, max_examples=cases(130, 400))
def test_numbers_have_their_size(number: int) -> None:
    assert number_bytes(number) == len(encode(number))


@given(st.text(max_size=40) | st.sampled_from(["x" * n for n in (31, 32, 255, 256, 65_535, 65_536)]))
@settings(steady, max_examples=100)
def test_texts_have_their_size(text: str) -> None:
    assert text_bytes(text) == len(encode(text))


@given(bundles(), st.integers(0, WIDEST_HOPS), st.sampled_from([0, 126, 127, 254, 255, 300]))
@settings(steady, max_examples=cases(50, 150))
def test_ordering_bytes_are_those_of_the_real_encoding(found: Bundle, hops: int, others: int) -> None:
    warm = data(*(Delivery(bundle(f"other.{n}"), 0, 0, None) for n in range(others)))
    body = steady_body(data(Delivery(found, hops, 0, None)), warm)
    origin, first, stamp = columns_of(body)[:3]
    hops_told = decode(body)[4][0][2]
    assert origin == others
    spent = sum(len(encode(number)) for number in (origin, first, stamp, hops_told))
    assert ordering_bytes(found, hops, reference=others) == spent
    assert spent <= ordering_bytes(found, hops) <= spent + 2


@pytest.mark.parametrize("number", [1, 2**31, 2**32 - 1, 2**32, 2**53, INT64_MAX])
def test_the_order_of_a_bundle_never_costs_more_than_16_bytes(number: int) -> None:
    assert ordering_bytes(bundle(first=number, stamp=number), WIDEST_HOPS) <= 16
    assert ordering_bytes(bundle(first=number, stamp=LOW_MASK), WIDEST_HOPS, reference=ORIGINS - 1) <= 16


@given(bundles())
@settings(steady, max_examples=cases(50, 150))
def test_a_bundle_is_at_most_two_bytes_per_reference_smaller_than_told(found: Bundle) -> None:
    told = bundle_bytes(found)
    real = len(encode(columns_of(steady_body(data(Delivery(found, 0, 0, None))))))
    assert 0 <= told - real <= 2 * (2 + len(found.keys))


@given(bundles())
@settings(steady, max_examples=30)
def test_a_bundle_with_wide_references_has_exactly_the_size_told(found: Bundle) -> None:
    encoder = CODEC.encoder()
    for n in range(256):
        encoder.encode(data(Delivery(bundle(f"other.{n}", topic=f"other/{n}", keys=(f"other/{n}",)), 0, 0, None)))
    frame = data(Delivery(found, 0, 0, None))
    encoder.encode(frame)
    assert CODEC.frame_bytes(frame) == 4 + len(encoder.encode(frame))


@given(frames)
@settings(steady, max_examples=cases(70, 200))
def test_a_frame_is_at_most_two_bytes_per_reference_smaller_than_told(frame: Any) -> None:
    references = sum(2 + len(m.bundle.keys) for m in getattr(frame, "messages", ()) if hasattr(m, "bundle"))
    told = CODEC.frame_bytes(frame)
    assert 0 <= told - 4 - len(steady_body(frame)) <= 2 * references


@given(st.lists(numbers, max_size=20))
@settings(steady, max_examples=50)
def test_offsets_count_too(offsets: list[int]) -> None:
    frame = data(Delivery(bundle(), 3, 9, tuple(offsets)))
    assert CODEC.frame_bytes(frame) - 4 - len(steady_body(frame)) == 4  # two references of one byte each
