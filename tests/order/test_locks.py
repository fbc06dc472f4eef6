"""The table of locks against its definition, the memory of last totals, and the form of all this on the wire."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.bundle import Bundle
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import Mark
from resprout.links.frames import Data
from resprout.order.messages import (
    TOTAL_MESSAGES,
    AlreadyOrdered,
    Closed,
    Lock,
    OrderedTotal,
    Submit,
    TotalCopy,
    tseq_of,
)  # fmt: skip
from resprout.order.totals import pending
from resprout.order.totals.pending import LastPlaces, LockRecord, LockTable
from resprout.wire.codec import Codec
from tests.order.examples import publication
from tests.soak import cases

KEYS = st.sets(st.sampled_from(("x", "y", "z", "w")), max_size=3).map(lambda keys: tuple(sorted(keys)))


def total(name: str, keys: tuple[str, ...]) -> Bundle:
    return publication(name, 1, keys, Guarantee.TOTAL)


@given(st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=12), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=cases(50, 150), derandomize=True)
def test_totals_are_active_as_soon_as_they_are_known_and_stand_in_one_line(
    drawn: list[tuple[tuple[str, ...], bool]], rng: random.Random
) -> None:
    table = LockTable()
    coming = [LockRecord((0, place), bundle_of(place, *one)) for place, one in enumerate(drawn)]
    known: list[LockRecord] = []
    while coming or known:
        if coming and (rng.random() < 0.6 or not known):
            several = [coming.pop(0) for _ in range(rng.randint(1, len(coming)))]
            known += several
            for record in rng.sample(several, len(several)):
                table.add(record)
            assert table.take_idle() == several, "in the order of their places"
            for record in several:
                table.activate(record, 0)
        else:
            done = known.pop(0)
            assert table.first is done
            table.deliver(done, 1)
            assert done.bundle.stamp == done.stamp == 1
        assert table.in_line() == known and set(table.undelivered) == {record.id for record in known}
        for key in "xyzw":
            plain = publication("p", 1, (key,), Guarantee.CAUSAL)
            holders = [r for r in known if r.bundle.guarantee is Guarantee.TOTAL and key in r.bundle.keys]
            assert table.is_gated(plain) == bool(holders), "what is only carried closes nothing"
    assert table.first is None and table.take_idle() == []


def bundle_of(place: int, keys: tuple[str, ...], is_total: bool) -> Bundle:
    return publication(f"c{place}", 1, keys, Guarantee.TOTAL if is_total else Guarantee.CAUSAL)


def test_a_total_must_be_delivered_before_it_is_forgotten() -> None:
    table = LockTable()
    record = LockRecord((0, 1), total("c", ("x",)))
    table.add(record)
    with pytest.raises(AssertionError, match="leaves no log"):
        table.forget(record.id)


def test_the_latest_publishers_are_remembered_and_long_quiet_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "PUBLISHERS_KEPT", 3)
    last = LastPlaces()
    for name in ("a", "b", "c", "d", "a", "e"):
        last.note(Mark(name, "ordered", 1, 5))
    last.note(Mark("e", "ordered", 1, 2))
    assert {mark.publisher for mark in last.marks()} == {"a", "b", "c", "d", "e"}
    for name in ("f", "g", "h"):
        last.note(Mark(name, "ordered", 1, 5))
    assert not last.is_newer(("a", 1, 5)), "met again, so it is among the latest"
    assert not last.is_newer(("e", 1, 5)), "and never taken back"
    assert last.is_newer(("e", 1, 6))
    assert last.is_newer(("b", 1, 1))
    assert len(last.marks()) <= 2 * 3


def test_everything_about_totals_has_a_form_on_the_wire() -> None:
    codec = Codec((Data,), TOTAL_MESSAGES)
    bundle = total("c", ("x", "y"))
    messages = (
        Submit(bundle), Lock(1, 2, bundle), OrderedTotal(1, 2, bundle.stamped(9), 1), AlreadyOrdered("c", 1, 1, 9),
        Closed("c", 1, 1, 7), TotalCopy(1, 2, bundle.stamped(9)),
    )  # fmt: skip
    assert {type(message) for message in messages} == set(TOTAL_MESSAGES)
    frame = Data(1, 0, 0, messages)
    assert codec.decoder().decode(codec.encoder().encode(frame)) == frame
    for message in messages:
        carried = getattr(message, "bundle", None)
        assert message.cost == (carried.cost if carried is not None else 0), "bundles count, whatever carries them"


def test_a_place_is_one_number_that_grows_with_it_and_fits_into_63_bits() -> None:
    places = [(0, 1), (0, (1 << 40) - 1), (1, 1), ((1 << 22) - 1, (1 << 40) - 1)]
    numbers = [tseq_of(place) for place in places]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] < 1 << 63
