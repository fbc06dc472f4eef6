"""Bundles: packing, unpacking, picking, and what is refused on the way."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.core.bundle import (
    Bundle,
    fits,
    pack_attributes,
    pack_payloads,
    pick,
    split,
    unpack_attributes,
    unpack_payloads,
)
from resprout.core.errors import WireError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from tests.soak import cases

ROWS: list[dict[str, AttributeValue]] = [{"x": 1}, {}, {"x": 2, "s": "a"}]


def bundle(payloads: bytes | None = None, attributes: bytes = b"", count: int = 3, **changes: Any) -> Bundle:
    if payloads is None:
        payloads = pack_payloads([b"%d" % n for n in range(count)])
    fields: dict[str, Any] = {
        "publisher": "p", "incarnation": 1, "first": 5, "count": count, "stamp": 9, "topic": "t", "keys": (),
        "guarantee": Guarantee.CAUSAL, "attributes": attributes, "payloads": payloads,
    }  # fmt: skip
    return Bundle(**(fields | changes))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=20),
            st.dictionaries(
                st.text(min_size=1, max_size=5),
                st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5),
                max_size=3,
            ),
        ),
        min_size=1,
        max_size=10,
    ),
    st.data(),
)
def test_columns_come_back_as_they_were_packed_and_picks_keep_their_order(
    messages: list[tuple[bytes, dict[str, AttributeValue]]], data: st.DataObject
) -> None:
    payloads, rows = [payload for payload, _ in messages], [row for _, row in messages]
    made = bundle(pack_payloads(payloads), pack_attributes(rows), len(messages))
    assert unpack_payloads(made) == payloads
    assert unpack_attributes(made) == rows
    chosen = sorted(data.draw(st.sets(st.integers(0, len(messages) - 1), min_size=1)))
    picked = pick(made, chosen)
    assert picked.count == len(chosen)
    assert unpack_payloads(picked) == [payloads[i] for i in chosen]
    assert unpack_attributes(picked) == [rows[i] for i in chosen]
    assert (picked.first, picked.stamp, picked.origin) == (made.first, made.stamp, made.origin)


def test_attributes_that_nobody_has_cost_nothing() -> None:
    assert pack_attributes([{}, {}]) == b""
    assert unpack_attributes(bundle()) == [{}, {}, {}]
    assert pick(bundle(attributes=pack_attributes(ROWS)), [1]).attributes == b""


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (b"", "payload column of <p.1/ordered:5"),
        (b"\xc1", "payload column"),
        (b"\x93\xc4", "payload column"),
        (pack_payloads([b"a"]), "holds 1 messages"),
        (pack_payloads([b"a"] * 4), "holds 4 messages"),
        (msgspec.msgpack.encode(["a", "b", "c"]), "payload column"),
        (msgspec.msgpack.encode({"a": b"b"}), "payload column"),
        (pack_payloads([b"a"] * 3) + b"\x00", "payload column"),
    ],
)
def test_a_payload_column_that_does_not_fit_is_refused(column: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        unpack_payloads(bundle(column))
    with pytest.raises(WireError, match="payload column"):
        unpack_payloads(pick(bundle(column), [0]))


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (b"\xc1", "attribute column of <p.1/ordered:5"),
        (msgspec.msgpack.encode([{}]), "holds 1 rows"),
        (msgspec.msgpack.encode([{}] * 4), "holds 4 rows"),
        (msgspec.msgpack.encode([{}, {}, 5]), "attribute column"),
        (msgspec.msgpack.encode([{}, {}, {"a": None}]), "attribute column"),
        (msgspec.msgpack.encode([{}, {}, {"a": [1]}]), "attribute column"),
        (msgspec.msgpack.encode([{}, {}, {5: 1}]), "attribute column"),
        (b"\x93\x80\x80\x81\xa1a\xa1\xff", "attribute column"),
        (b"\x93\x80\x80\x81\xa1\xff\x01", "attribute column"),
    ],
)
def test_an_attribute_column_that_does_not_fit_is_refused(column: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        unpack_attributes(bundle(attributes=column))
    with pytest.raises(WireError, match="payload column"):
        unpack_payloads(pick(bundle(attributes=column), [0]))


@settings(max_examples=cases(70, 200), deadline=None, derandomize=True)
@given(st.binary(max_size=40))
def test_columns_of_any_bytes_are_unpacked_or_refused(column: bytes) -> None:
    for unpack, made in ((unpack_payloads, bundle(column)), (unpack_attributes, bundle(attributes=column))):
        try:
            assert len(unpack(made)) == made.count
        except WireError as error:
            assert "\n" not in str(error)


def test_stamping_makes_a_copy_that_differs_in_nothing_else() -> None:
    made = bundle()
    later = made.stamped(20)
    assert (made.stamp, later.stamp) == (9, 20)
    assert later != made and later.stamped(9) == made
    assert hash(later) == hash(made), "the same publications"
    assert made != "something else"


@pytest.mark.parametrize("attributes", [b"", pack_attributes(ROWS)])
def test_a_bundle_is_split_behind_a_number(attributes: bytes) -> None:
    whole = bundle(attributes=attributes)
    for last in (5, 6):
        before, after = split(whole, last)
        assert (before.first, before.last, after.first, after.last) == (5, last, last + 1, 7)
        assert unpack_payloads(before) + unpack_payloads(after) == unpack_payloads(whole)
        assert unpack_attributes(before) + unpack_attributes(after) == unpack_attributes(whole)
        assert before.origin == after.origin == whole.origin and after.stamp == whole.stamp


def test_what_a_bundle_says_about_itself() -> None:
    made = bundle(keys=("k", "u#l"), guarantee=Guarantee.EVENTUAL)
    assert (made.last, made.stream, made.topics) == (7, "eventual", ("t", "u"))
    assert bundle().topics == ("t",)
    assert made.cost == len(made.payloads) + 64
    assert repr(bundle()) == "<p.1/ordered:5+3 t causal @9>"


def test_a_bundle_fits_up_to_its_limits() -> None:
    assert fits(limits.BUNDLE_BYTES - 10, 10, limits.BUNDLE_MESSAGES)
    assert not fits(limits.BUNDLE_BYTES, 1, 1)
    assert not fits(0, 0, limits.BUNDLE_MESSAGES + 1)
    assert fits(limits.PAYLOAD_BYTES, 4096, 1), "one message of the largest size always fits"


@pytest.mark.parametrize("key", ["k", "account-17", "k" * 256, "Konto-ä", "口座", f"{'t' * 512}#{'k' * 255}"])
def test_keys_count_as_much_as_they_take_in_a_frame(key: str) -> None:
    """Counted as long as a key may be, a few messages with short keys filled what may be on its way."""
    keys = tuple(f"{key}{number}" for number in range(5))
    bundle = Bundle("c0", 1, 1, 1, 1, "t", keys, Guarantee.TOTAL, b"", b"")
    encoded = sum(len(msgspec.msgpack.encode(key)) for key in keys)
    assert encoded <= bundle.key_bytes <= encoded + 2 * len(keys)
