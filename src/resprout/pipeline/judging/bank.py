"""Replicas of the bank one by one, on columns: what they say to have executed, and what each breaks on its own.

See `audit.bank` for what is compared. `bank_together` decides what needs all replicas.
"""

import copy
from collections.abc import Sequence

import numpy as np

from resprout.pipeline.judging.bank_together import Accounts, Testimony
from resprout.pipeline.judging.columns import (
    NEVER,
    NULL,
    Array,
    Rows,
    UnreadableError,
    Words,
    cells_of,
    distinct,
    is_same,
    table_of,
    text_of,
    values_of,
)
from resprout.pipeline.judging.context import Context
from resprout.pipeline.judging.deliveries import Subscriber
from resprout.pipeline.judging.publications import DEPOSIT, INTEREST, MONEY_MAX, TRANSFER, WITHDRAW, Publications


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


class Replicas:
    """Of a portion of the subscribers. `look` at each, then `testimony`."""

    def __init__(self, context: Context, applied: AppliedRows, accounts: Accounts, initial: int) -> None:
        self._context = context
        self._operations = context.operations
        self._applied = applied
        self._circle = accounts.circle
        self._loose = accounts.loose
        self._initial = initial
        self.broken: set[str] = set()
        numbers = self._operations.numbers
        self._by_circle = numbers[np.lexsort((numbers, self._circle[numbers]))]
        circles = self._circle[self._by_circle]
        self._begins = np.flatnonzero(np.r_[True, ~is_same(circles)]) if len(circles) else np.empty(0, dtype=np.int64)
        self._judged = np.zeros(len(applied.row), dtype=np.bool_)
        by_life = np.argsort(applied.life, kind="stable")
        self._of_life = {
            int(applied.life[piece[0]]): piece
            for piece in np.split(by_life, np.flatnonzero(~is_same(applied.life[by_life])) + 1)
            if len(piece)
        }

    def lives(self) -> list[int]:
        """Those that executed anything."""
        return sorted(self._of_life)

    def look(self, life: int, s: Subscriber | None, due: Array, until: Array) -> None:
        """At one life: what it was given, and what was due to it until when."""
        here = self._of_life.get(life)
        if here is None:
            return
        number, row = self._applied.number[here], self._applied.row[here]
        given_at, position = (np.full(len(self._context.publications), NEVER, dtype=np.int64) for _ in range(2))
        if s is not None:
            given_at[s.heard], position[s.heard] = s.heard_row, s.heard_position
        places = position[number][given_at[number] != NEVER]
        again = len(np.unique(number)) < len(number)
        if again or np.any(given_at[number] > row) or np.any(places[1:] < places[:-1]):
            self.broken.add("bank_applied")
        self._judged[here] = row < self._complete_until(life, due, until)[self._circle[number]]

    def testimony(self) -> Testimony:
        """After all were looked at."""
        self._check_books()
        applied = self._applied
        judged = np.flatnonzero(self._judged)
        compared = judged[self._context.publications.total[applied.number[judged]]]
        number = applied.number[compared][::-1]
        first = np.full(len(self._context.publications), -1, dtype=np.int64)
        first[number] = compared[::-1]
        models = first[first >= 0]
        cells = np.isin(applied.cell_of, models)
        stated = np.isin(applied.cell_of, compared)
        cents = applied.cell_cents[stated]
        lowest = int(cents.min(initial=0))
        number, pair, above = distinct(
            applied.number[applied.cell_of[stated]], applied.cell_pair[stated], cents - lowest
        )
        return Testimony(
            broken=self.broken,
            models=np.stack((applied.number[models], applied.row[models], applied.is_refused[models])),
            model_cells=np.stack(
                (applied.number[applied.cell_of[cells]], applied.cell_pair[cells], applied.cell_cents[cells])
            ),
            outcomes=np.stack(distinct(applied.number[compared], applied.is_refused[compared])),
            cells=np.stack((number, pair, above + lowest)),
            chosen=self._chosen(judged),
        )

    def _chosen(self, judged: Array) -> dict[int, tuple[int, Array]]:
        """By circle, of the replica that executed most: its first row, and (operation, whether refused) in order."""
        applied = self._applied
        circle, life = self._circle[applied.number[judged]], applied.life[judged]
        order = np.lexsort((judged, life, circle))
        circle, life, place = circle[order], life[order], judged[order]
        found: dict[int, tuple[int, Array]] = {}
        bounds = np.flatnonzero(~(is_same(circle) & is_same(life))) + 1
        for piece in np.split(place, bounds) if len(place) else ():
            here, row = int(self._circle[applied.number[piece[0]]]), int(applied.row[piece[0]])
            steps = np.stack((applied.number[piece], applied.is_refused[piece]))
            if here not in found or (-steps.shape[1], row) < (-found[here][1].shape[1], found[here][0]):
                found[here] = (row, steps)
        return found

    def _complete_until(self, life: int, due: Array, until: Array) -> Array:
        """By circle, the row until which the life was due every operation on it; -1 when it was not."""
        complete = np.full(int(self._circle.max(initial=-1)) + 1, -1, dtype=np.int64)
        if not len(self._begins):
            return complete
        publications = self._context.publications
        last = np.full(len(publications), -1, dtype=np.int64)
        last[due] = until
        here = last[self._by_circle]
        circles = self._circle[self._by_circle[self._begins]]
        ends = np.r_[self._begins[1:], len(here)]
        end_row = int(self._context.lives.end_row[life])
        lowest = np.minimum.reduceat(here, self._begins)
        complete[circles] = np.where(lowest >= 0, np.minimum(lowest, end_row), -1)
        for place in np.flatnonzero((lowest < 0) & (here[self._begins] >= 0)).tolist():
            begin, end = int(self._begins[place]), int(ends[place])
            rows = publications.row[self._by_circle[begin:end]]
            complete[circles[place]] = _until(here[begin:end].tolist(), rows.tolist(), end_row)
        complete[self._loose] = -1
        return complete

    def _check_books(self) -> None:
        """Every balance against the one that the replica showed before."""
        applied, operations = self._applied, self._operations
        if np.any(applied.cell_cents < 0):
            self.broken.add("bank_negative")
        order = np.lexsort((applied.cell_of, applied.cell_pair, applied.life[applied.cell_of]))
        place, pair, cents = applied.cell_of[order], applied.cell_pair[order], applied.cell_cents[order]
        if not len(place):
            return
        same = is_same(pair) & is_same(applied.life[place])
        before = np.r_[self._initial, np.where(same, cents[:-1], self._initial)]
        number = applied.number[place]
        kind, amount = operations.kind[number], operations.amount[number]
        is_account = operations.account[number] == pair
        gain = np.where(is_account & (kind == DEPOSIT), amount, 0)
        gain = np.where(is_account & ((kind == WITHDRAW) | (kind == TRANSFER)), -amount, gain)
        gain = np.where(is_account & (kind == INTEREST), before * amount // 10_000, gain)
        gain = np.where((kind == TRANSFER) & (operations.to[number] == pair), amount, gain)
        if np.any(cents != before + np.where(applied.is_refused[place], 0, gain)):
            self.broken.add("bank_conserved")


def _until(until: list[int], rows: list[int], end_row: int) -> int:
    """Until when a replica that missed some operations of a circle (-1) was due all of them."""
    kept = end_row
    for last, row in zip(until, rows, strict=True):
        if last >= 0:
            kept = min(kept, last)
        elif kept >= row:
            return -1
    return kept
