"""What goes in comes out."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.bundle import Bundle
from resprout.core.message_fields import NUMBER_MAX, STAMP_MAX
from resprout.edge.messages import Publish
from resprout.stacks.resprout import RESPROUT
from tests.soak import cases
from tests.wire.examples import CODEC, bundle, bundles, data, frames, publishing, steady, structs


@pytest.mark.parametrize("kind", RESPROUT.messages)
@given(st.data())
@settings(steady, max_examples=cases(8, 30))
def test_every_message_type_comes_back_as_it_was(kind: Any, source: st.DataObject) -> None:
    encoder, decoder = CODEC.encoder(), CODEC.decoder()
    for _ in range(2):  # the second time names are numbers
        frame = data(source.draw(structs(kind)))
        assert decoder.decode(encoder.encode(frame)) == frame


@given(st.lists(frames, max_size=8))
@settings(steady, max_examples=cases(40, 120))
def test_a_conversation_comes_back_as_it_was(conversation: list[Any]) -> None:
    encoder, decoder = CODEC.encoder(), CODEC.decoder()
    for frame in conversation * 2:
        CODEC.check(frame)
        assert decoder.decode(encoder.encode(frame)) == frame


@given(st.lists(bundles(), min_size=1, max_size=6))
@settings(steady, max_examples=70)
def test_bundles_keep_every_column_and_their_types(found: list[Bundle]) -> None:
    frame = publishing(*found, *found)
    again = CODEC.decoder().decode(CODEC.encoder().encode(frame))
    for before, after in zip(frame.messages, again.messages, strict=True):
        assert isinstance(after, Publish)
        assert after.bundle == before.bundle
        assert after.bundle.origin == before.bundle.origin
        assert type(after.bundle.guarantee) is type(before.bundle.guarantee)
        assert type(after.bundle.keys) is tuple


@pytest.mark.parametrize("number", [1, 2**32 - 1, 2**32, 2**32 + 1, NUMBER_MAX])
def test_numbers_cross_the_halves_unharmed(number: int) -> None:
    frame = publishing(bundle(first=number, stamp=number), bundle(first=number, stamp=STAMP_MAX - number))
    assert CODEC.decoder().decode(CODEC.encoder().encode(frame)) == frame
