"""What is kept counts against whoever brought it, for as long as anybody needs it."""

from resprout.core.bundle import Bundle
from resprout.core.contract import Effect, Hold, Release
from resprout.core.guarantee import Guarantee
from resprout_lab.blocks.retention import KeptItem, Retention


def item(source: str | None, count: int = 6) -> KeptItem:
    return KeptItem(Bundle("c", 1, 1, count, 1, "t", (), Guarantee.CAUSAL, b"", b""), 1, source, False)


def pushed(kept: Retention) -> list[Effect]:
    out: list[Effect] = []
    kept.push_back(out)
    return out


def test_whoever_brought_too_much_is_held_back_until_half_of_it_is_needed_no_more() -> None:
    kept = Retention(10)
    first, second = item("b1"), item("b1")
    for one in (first, second):
        kept.keep(one)
        kept.keep(one)
    assert pushed(kept) == [Hold("b1")]
    kept.let_go(first)
    assert pushed(kept) == [], "somebody else needs it still"
    kept.let_go(first)
    assert pushed(kept) == []
    kept.let_go(second)
    kept.let_go(second)
    assert pushed(kept) == [Release("b1")]


def test_what_somebody_else_stands_for_now_is_charged_to_that_one() -> None:
    kept = Retention(10)
    first, second = item("dead"), item("dead")
    kept.keep(first)
    kept.keep(second)
    assert pushed(kept) == [Hold("dead")]
    kept.move(first, "b2")
    kept.move(second, "b2")
    assert pushed(kept) == [Hold("b2"), Release("dead")]
    assert first.source == "b2"
    kept.move(first, None)
    kept.let_go(first)
    kept.let_go(second)
    assert pushed(kept) == [Release("b2")]


def test_what_nobody_needs_is_charged_to_nobody_when_it_moves() -> None:
    kept = Retention(1)
    kept.move(item("b1", 99), "b2")
    assert pushed(kept) == []


def test_a_client_can_be_charged_for_what_is_elsewhere() -> None:
    kept = Retention(10)
    kept.charge("c", 11)
    assert pushed(kept) == [Hold("c")]
    kept.charge("c", -11)
    assert pushed(kept) == [Release("c")]
