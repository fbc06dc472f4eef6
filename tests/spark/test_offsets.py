"""How a query says where it is."""

from datetime import UTC, datetime

import pytest

from resprout.client.past_events import Offset
from resprout.core import limits
from resprout.core.errors import UsageError
from resprout.spark.options import INDEX_BITS, JournalOffset, from_json, read_place, to_json


def test_an_offset_survives_a_checkpoint() -> None:
    offset = JournalOffset("tap.1", ((7, 40), (9, 52)))
    assert to_json(offset) == {"tap.1": {"7": 40, "9": 52}}
    assert from_json(to_json(offset)) == offset and (offset.position, offset.life) == (52, 9)


def test_a_life_that_goes_on_is_moved_and_a_new_one_is_put_beside_it() -> None:
    offset = JournalOffset("tap.1", ((7, 40),))
    assert offset.moved(((7, 45), (9, 52))).lives == ((7, 45), (9, 52))
    assert JournalOffset("tap.1", ((0, 0),)).moved(((7, 3),)).lives == ((7, 3),)
    assert JournalOffset("tap.1", ((9, 0),)).moved(((3, 5), (7, 8))).lives == ((9, 0), (3, 5), (7, 8))


@pytest.mark.parametrize("kept", [{}, {"a": {}}, {"a": {"1": 2}, "b": {"1": 2}}, {"a": {"x": 1}}, {"a": {"1": -1}}])
def test_what_is_no_offset_of_one_journal_is_refused(kept: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="is no offset"):
        from_json(kept)


def test_a_user_may_say_where_to_begin_in_five_ways() -> None:
    assert read_place("earliest") == "earliest" and read_place(" latest ") == "latest"
    assert read_place('{"tap.1": {"7": 41}}') == Offset("tap.1", 41, 7)
    assert read_place('{"tap.1": 41}') == Offset("tap.1", 41)
    assert read_place("tap.1@41") == Offset("tap.1", 41)
    assert read_place("2026-03-01T12:00:00Z") == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert read_place("2026-03-01 13:00:00+01:00") == datetime(2026, 3, 1, 12, tzinfo=UTC)
    for nonsense in ("soon", "{", "@4", '{"a": [1]}'):
        with pytest.raises(UsageError):
            read_place(nonsense)


def test_numbers_of_messages_have_room_for_every_place_in_a_bundle() -> None:
    assert limits.BUNDLE_MESSAGES <= 1 << INDEX_BITS
