"""The check of a client's columns agrees with the rules that its publisher was held to."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.core.bundle import Bundle, unpack_attributes, unpack_payloads
from resprout.core.errors import NameRefusedError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.limits import check_attributes
from resprout.wire.bundles import check_columns
from tests.soak import cases
from tests.wire.examples import bundle, bundles, steady

encode = msgspec.msgpack.encode


def raw(count: int, payloads: bytes, attributes: bytes = b"") -> Bundle:
    return Bundle("c0", 1, 1, count, 0, "t", (), Guarantee.FIFO, attributes, payloads)


def one_row(row: Any) -> Bundle:
    return raw(1, encode([b""]), encode([row]))


@given(bundles())
@settings(steady, max_examples=80)
def test_what_a_publisher_packs_is_accepted(found: Bundle) -> None:
    check_columns(found)


def test_the_largest_bundles_are_accepted() -> None:
    check_columns(bundle(payloads=[bytes(limits.PAYLOAD_BYTES)]))
    check_columns(bundle(payloads=[b"x" * 32] * limits.BUNDLE_MESSAGES))
    names = [f"{number:03}" + "n" * (limits.ATTRIBUTE_NAME_BYTES - 3) for number in range(63)]
    check_columns(one_row(dict.fromkeys(names, True) | {"é" * 64: "é" * 512}))


@pytest.mark.parametrize(
    "payloads",
    [
        b"", b"\xc0", b"\xc1", encode([b"a"]), encode([b"a"] * 3), encode([b"a", "b"]), encode([b"a", 1]),
        encode([b"a", None]), encode([b"a", [b"b"]]), encode([b"a", b"b"]) + b"\0", encode([b"a", b"b"])[:-1],
        encode({"a": b"b", "c": b"d"}), b"\xdd\xff\xff\xff\xff", b"\x91" * 100_000, encode([b"a"] * 1025),
    ],
)  # fmt: skip
def test_payload_columns_that_do_not_hold_the_messages_are_refused(payloads: bytes) -> None:
    with pytest.raises(WireError, match="payload column"):
        check_columns(raw(2, payloads))


def test_one_payload_beyond_the_limit_is_refused() -> None:
    with pytest.raises(WireError, match="payload column"):
        check_columns(raw(1, encode([bytes(limits.PAYLOAD_BYTES + 1)])))


def test_columns_beyond_the_limit_together_are_refused() -> None:
    with pytest.raises(WireError, match="more than"):
        check_columns(raw(2, encode([bytes(limits.PAYLOAD_BYTES), bytes(8192)])))


@pytest.mark.parametrize("rows", [[], [{}, {}], {"a": 1}, [None], [[]], 5, [{"a": 1}, {"a": 1}]])
def test_attribute_columns_that_do_not_hold_the_rows_are_refused(rows: Any) -> None:
    with pytest.raises(WireError, match="attribute column"):
        check_columns(raw(1, encode([b""]), encode(rows)))


@pytest.mark.parametrize(
    "row",
    [
        {"a": math.nan}, {"a": None}, {"a": b"bytes"}, {"a": [1]}, {"a": {"b": 1}}, {"a": 2**63}, {1: 1}, {"": 1},
        {"a\0": 1}, {"n" * 129: 1}, {"é" * 65: 1}, {"a": "x" * 1025}, {"a": "é" * 513}, {str(n): 1 for n in range(65)},
    ],
)  # fmt: skip
def test_attributes_that_break_the_rules_are_refused(row: Any) -> None:
    with pytest.raises(WireError, match="attribute column"):
        check_columns(one_row(row))


@pytest.mark.parametrize(
    "column", [b"\x91\x81\xa1\xff\x01", b"\x91\x81\xa1a\xa1\xff", b"\x91\x81\xa1a", b"\x81" * 99_999]
)
def test_attribute_bytes_that_are_no_rows_are_refused(column: bytes) -> None:
    with pytest.raises(WireError, match="attribute column"):
        check_columns(raw(1, encode([b""]), column))


_values = st.one_of(
    st.text(max_size=3), st.sampled_from(["é" * 512, "é" * 513, "x" * 1024, "x" * 1025, "\U0001f600" * 256]),
    st.floats(), st.integers(-(2**63), 2**64 - 1), st.booleans(),
)  # fmt: skip
_names = st.one_of(st.text(max_size=3), st.sampled_from(["n" * 128, "n" * 129, "é" * 64, "é" * 65]))


@given(st.dictionaries(_names, _values, max_size=4))
@settings(steady, max_examples=cases(100, 300))
def test_the_verdict_on_attributes_is_that_of_the_core_rules(row: dict[str, Any]) -> None:
    try:
        check_attributes(row)
        accepted = True
    except NameRefusedError:
        accepted = False
    try:
        check_columns(one_row(row))
        assert accepted
    except WireError:
        assert not accepted


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(1, 3))
@settings(steady, max_examples=cases(100, 300))
def test_whatever_passes_can_be_unpacked(payloads: bytes, attributes: bytes, count: int) -> None:
    found = raw(count, payloads, attributes)
    try:
        check_columns(found)
    except WireError:
        return
    assert len(unpack_payloads(found)) == len(unpack_attributes(found)) == count
