"""Guarantees and receipts as words and as an order."""

from typing import Any

import pytest

from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, ReceiptLevel


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_guarantee_is_read_back_from_its_word_in_any_case(guarantee: Guarantee) -> None:
    assert Guarantee.parse(guarantee.label) is guarantee
    assert Guarantee.parse(guarantee.label.upper()) is guarantee


@pytest.mark.parametrize("word", ["", "fast", "causal ", "0", None, 2, b"fifo", ["fifo"]])
def test_any_other_word_is_refused_with_the_choices(word: Any) -> None:
    with pytest.raises(UsageError, match=r"^unknown guarantee .*; it is one of eventual, fifo, causal, total$"):
        Guarantee.parse(word)


def test_strength_is_the_order() -> None:
    assert Guarantee.EVENTUAL < Guarantee.FIFO < Guarantee.CAUSAL < Guarantee.TOTAL
    assert ReceiptLevel.ACCEPTED < ReceiptLevel.SAFE < ReceiptLevel.DELIVERED
    assert [receipt.label for receipt in ReceiptLevel] == ["accepted", "safe", "delivered"]


def test_eventual_alone_has_a_stream_of_its_own() -> None:
    assert [guarantee.stream for guarantee in Guarantee] == ["eventual", "ordered", "ordered", "ordered"]
