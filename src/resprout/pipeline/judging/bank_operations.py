"""Operations of a bank as columns. See `audit.bank_operations` for what counts as one.

Money that does not fit here (beyond two thousand million cents) is left to the judge in Python.
"""

from typing import Final

import numpy as np

from resprout.pipeline.judging.columns import Array, UnreadableError, Words, cells_of, table_of, text_of, values_of
from resprout.pipeline.judging.publications import Publications

MONEY_MAX: Final = 1 << 31
KINDS: Final = ("balance", "deposit", "withdraw", "interest", "transfer")
BALANCE, DEPOSIT, WITHDRAW, INTEREST, TRANSFER = range(5)
NOTHING: Final = -1


class Operations:
    def __init__(self, publications: Publications, words: Words) -> None:
        count = len(publications)
        self.kind = np.full(count, NOTHING, dtype=np.int8)
        """By publication; NOTHING for what is no operation."""
        self.amount = np.zeros(count, dtype=np.int64)
        self.account = np.full(count, -1, dtype=np.int64)
        """The pair that it changes; the one debited, for a transfer."""
        self.to = np.full(count, -1, dtype=np.int64)
        if (op := words.attributes.find("op")) < 0:
            return
        cells = cells_of(publications.attributes)
        ops = text_of(cells, op, count)
        amounts = text_of(cells, words.attributes.find("amount"), count)
        named = np.flatnonzero(ops >= 0)
        kinds = table_of([_kind(word) for word in values_of(words, ops[named])], ops[named], words)
        money = table_of([_money(value) for value in values_of(words, amounts[named])], amounts[named], words)
        kind, amount = kinds[ops[named]], money[amounts[named]]
        pairs = np.diff(publications.pair_start)[named]
        simple = (kind >= 0) & (kind < TRANSFER) & (pairs == 1) & ((kind == BALANCE) | (amount > 0))
        self._set(named[simple], kind[simple], amount[simple], publications)
        moving = named[(kind == TRANSFER) & (pairs == 2) & (amount > 0)]
        self.amount[moving] = money[amounts[moving]]
        self._set_transfers(moving, text_of(cells, words.attributes.find("to"), count), publications, words)

    @property
    def numbers(self) -> Array:
        return np.flatnonzero(self.kind >= 0)

    def _set(self, numbers: Array, kind: Array, amount: Array, publications: Publications) -> None:
        self.kind[numbers] = kind
        self.amount[numbers] = amount
        self.account[numbers] = publications.pair[publications.pair_start[numbers]]

    def _set_transfers(self, numbers: Array, to: Array, publications: Publications, words: Words) -> None:
        values = ["None" if value is None else str(value) for value in values_of(words, to[numbers])]
        topics, keys = [], []
        for value in values:
            other, mark, rest = value.partition("#")
            topics.append(words.topics.find(other) if mark else -2)
            keys.append(publications.pair_keys.find(rest if mark else value))
        topic, key = table_of(topics, to[numbers], words)[to[numbers]], table_of(keys, to[numbers], words)[to[numbers]]
        topic = np.where(topic == -2, publications.topic[numbers], topic)
        first = publications.pair[publications.pair_start[numbers]]
        second = publications.pair[publications.pair_start[numbers] + 1] if len(numbers) else first
        is_first, is_second = (
            (publications.pair_topic[pair] == topic) & (publications.pair_key[pair] == key) for pair in (first, second)
        )
        fits = is_first | is_second
        self.kind[numbers[fits]] = TRANSFER
        self.to[numbers] = np.where(is_first, first, second)
        self.account[numbers] = np.where(is_first, second, first)


def _kind(value: object) -> int:
    return KINDS.index(value) if isinstance(value, str) and value in KINDS else NOTHING


def _money(value: object) -> int:
    if isinstance(value, int) and abs(value) > MONEY_MAX:
        raise UnreadableError(f"an amount of {value}")
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
