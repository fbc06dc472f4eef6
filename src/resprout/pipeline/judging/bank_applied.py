"""What replicas of a bank say to have executed, as columns."""

import copy
from collections.abc import Sequence

import numpy as np

from resprout.pipeline.judging.arrays import NULL, Array
from resprout.pipeline.judging.attributes import cells_of, table_of, text_of, values_of
from resprout.pipeline.judging.bank_operations import MONEY_MAX
from resprout.pipeline.judging.columns import Rows, UnreadableError, Words
from resprout.pipeline.judging.context import Context
from resprout.pipeline.judging.publications import Publications


class AppliedRows:
    """Operations as replicas say to have executed them, in order of rows."""

    def __init__(self, rows: Rows, context: Context) -> None:
        if np.any(rows.publisher < 0) or np.any(rows.stream < 0):
            raise UnreadableError("an applied row without identity")
        if np.any(rows.seq == NULL) or np.any(rows.incarnation == NULL):
            raise UnreadableError("an applied row without number")
        number = context.index.find(rows.publisher, rows.incarnation, rows.stream, rows.seq)
        founded = (number >= 0) & (number < len(context.publications))
        founded[founded] = context.operations.kind[number[founded]] >= 0
        self.count = len(rows)
        """With those about what is no operation, which are not kept."""
        self.has_unfounded = not founded.all()
        rows = rows.take(np.flatnonzero(founded))
        self.row = rows.row
        self.life = context.lives.of(rows.node, rows.row)
        self.number = number[founded]
        self.is_refused = self._outcomes(cells_of(rows.attributes), len(rows), context.words)
        self._arrange_cells(rows, context.words, context.publications)

    def take(self, places: Array) -> "AppliedRows":
        """Some of them; what is known of all stays as it is."""
        found = copy.copy(self)
        found.row, found.life, found.number = self.row[places], self.life[places], self.number[places]
        found.is_refused = self.is_refused[places]
        place = np.full(len(self.row), -1, dtype=np.int64)
        place[places] = np.arange(len(places))
        kept = np.flatnonzero(place[self.cell_of] >= 0)
        found.cell_of = place[self.cell_of[kept]]
        found.cell_pair, found.cell_cents = self.cell_pair[kept], self.cell_cents[kept]
        return found

    @staticmethod
    def joined(pieces: "Sequence[AppliedRows]") -> "AppliedRows":
        found = copy.copy(pieces[0])
        for name in ("row", "life", "number", "is_refused", "cell_pair", "cell_cents"):
            setattr(found, name, np.concatenate([getattr(piece, name) for piece in pieces]))
        shifts = np.cumsum([0, *(len(piece.row) for piece in pieces)])
        found.cell_of = np.concatenate([piece.cell_of + shift for piece, shift in zip(pieces, shifts, strict=False)])
        return found

    def _outcomes(self, cells: tuple[Array, Array, Array], count: int, words: Words) -> Array:
        if not count:  # as in most portions of a run, whose words may be many
            return np.zeros(0, dtype=np.bool_)
        found = {word: place for place, word in enumerate(("ok", "refused"))}
        meaning = np.array([*(found.get(text.strip("'"), -1) for text in words.values.texts), -1])
        outcome = meaning[text_of(cells, words.attributes.find("outcome"), count)]
        if np.any(outcome < 0):
            raise UnreadableError("an applied row with an unknown outcome")
        is_refused: Array = outcome == 1
        return is_refused

    def _arrange_cells(self, rows: Rows, words: Words, publications: Publications) -> None:
        """Balances: (place among the applied, pair, cents), sorted by place and pair."""
        place, name, text = cells_of(rows.attributes)
        balances = name != words.attributes.find("outcome")
        place, name, text = place[balances], name[balances], text[balances]
        cents = table_of([_cents(value) for value in values_of(words, text)], text, words)[text]
        pair = _pairs_of_cells(words, publications)[name]
        order = np.lexsort((np.arange(len(place)), pair, place))
        place, pair, cents = place[order], pair[order], cents[order]
        last = np.r_[(place[1:] != place[:-1]) | (pair[1:] != pair[:-1]), True] if len(place) else balances[:0]
        self.cell_of, self.cell_pair, self.cell_cents = place[last], pair[last], cents[last]


def _cents(value: object) -> int:
    if not isinstance(value, int) or abs(value) > MONEY_MAX:
        raise UnreadableError(f"a balance of {value}")
    return int(value)


def _pairs_of_cells(words: Words, publications: Publications) -> Array:
    """For each attribute name the pair that it means; pairs that no publication names are numbered after the others."""
    known = {
        (words.topics.texts[topic], publications.pair_keys.texts[key]): pair
        for pair, (topic, key) in enumerate(
            zip(publications.pair_topic.tolist(), publications.pair_key.tolist(), strict=True)
        )
    }
    found = []
    for name in words.attributes.texts:
        topic, _, key = name.partition("|")
        found.append(known.setdefault((topic, key), len(known)))
    return np.array([*found, -1])
