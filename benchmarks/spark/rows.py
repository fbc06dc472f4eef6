"""A generated run as rows of a trace, part by part: Arrow tables like those that `trace.store` writes."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.spark.events import happenings
from benchmarks.spark.network import TOPICS, Array, Network
from benchmarks.spark.receipts import RECEIPTS, Receipts, give_receipts
from benchmarks.spark.traffic import EVENTUAL, GUARANTEES, KEYS, Publications, deliver, publish
from resprout.trace import kinds
from resprout.trace.columns import ARROW_SCHEMA, table_of

PART_ROWS: Final = 100_000
_EPOCH: Final = 1 << 40
"""Totals count within the epoch of a root; nobody but the first root gives numbers here."""
_STREAMS: Final = ("eventual", "ordered")
_AMOUNTS: Final = 1000


def _key_sets() -> list[tuple[str, ...]]:
    """By `_key_set_of`: no key, or one, with or without a second one of the same or of another topic."""
    names = [f"acc-{n:02d}" for n in range(KEYS)]
    others = ["", *(f"{topic}#" for topic in TOPICS)]
    seconds = [(), *((f"{other}{name}",) for other in others for name in names)]
    return [(), *(tuple(sorted({first, *second})) for first in names for second in seconds)]


_KEY_SETS: Final = pa.array(_key_sets(), type=ARROW_SCHEMA.field("keys").type)
_ATTRIBUTES: Final = pa.array(
    [[("amount", str(n)), ("kind", "'deposit'" if n % 3 else "'transfer'")] for n in range(_AMOUNTS)],
    type=ARROW_SCHEMA.field("attributes").type,
)


class Run:
    """Everything that happens in one run; the same seed and size give the same rows."""

    def __init__(self, seed: int, ticks: int) -> None:
        self.network = Network(seed, ticks)
        rng = np.random.default_rng([seed, 1])
        self.published = publish(self.network, rng)
        self.delivered = deliver(self.network, self.published, rng)
        self.receipts: Receipts = give_receipts(self.network, self.published, self.delivered, rng)
        last_us = int(max(self.delivered.time_us.max(), self.receipts.time_us.max()))
        self._events = happenings(self.network, last_us)
        self._clients = [f"c{n}" for n in range(self.network.clients)]

    @property
    def deliveries(self) -> int:
        return len(self.delivered)

    def parts(self, rows_max: int = PART_ROWS) -> Iterator[Any]:
        """Tables of so many rows, in order of time; of rows of one moment, events come first and receipts last."""
        times = [
            np.array([row.time_us for row in self._events], dtype=np.int64),
            self.published.time_us,
            self.delivered.time_us,
            self.receipts.time_us,
        ]
        ends = np.cumsum([len(each) for each in times])
        order = np.argsort(np.concatenate(times), kind="stable")
        writers = (self._event_rows, self._publish_rows, self._deliver_rows, self._receipt_rows)
        for begin in range(0, len(order), rows_max):
            wanted = order[begin : begin + rows_max]
            source = np.searchsorted(ends, wanted, side="right")
            tables = [
                write(wanted[source == number] - (ends[number - 1] if number else 0))
                for number, write in enumerate(writers)
            ]
            back = np.argsort(np.argsort(source, kind="stable"), kind="stable")
            yield pa.concat_tables(tables).combine_chunks().take(pa.array(back))

    def _event_rows(self, chosen: Array) -> Any:
        return table_of([self._events[n] for n in chosen])

    def _publish_rows(self, chosen: Array) -> Any:
        p = self.published
        return _table(
            len(chosen),
            time_us=p.time_us[chosen],
            node=_texts(self._clients, self.network.client_of[p.life[chosen]]),
            kind=_constant(kinds.PUBLISH, len(chosen)),
            **self._identity(chosen),
            **self._message(chosen),
            attributes=_ATTRIBUTES.take(pa.array(p.time_us[chosen] % _AMOUNTS)),
        )

    def _deliver_rows(self, chosen: Array) -> Any:
        d, p, network = self.delivered, self.published, self.network
        number, client = d.publication[chosen], network.client_of[d.life[chosen]]
        origin = network.client_of[p.life[number]]
        tseq = p.tseq[number]
        return _table(
            len(chosen),
            time_us=d.time_us[chosen],
            node=_texts(self._clients, client),
            kind=_constant(kinds.DELIVER, len(chosen)),
            **self._identity(number),
            **self._message(number),
            position=d.position[chosen],
            tseq=pa.array(tseq + _EPOCH, mask=tseq < 0),
            hops=np.abs(network.broker_of[client] - network.broker_of[origin]),
            metadata_bytes=2 + d.time_us[chosen] % 7,
        )

    def _receipt_rows(self, chosen: Array) -> Any:
        number = self.receipts.publication[chosen]
        return _table(
            len(chosen),
            time_us=self.receipts.time_us[chosen],
            node=_texts(self._clients, self.network.client_of[self.published.life[number]]),
            kind=_constant(kinds.RECEIPT, len(chosen)),
            **self._identity(number),
            receipt=_texts(RECEIPTS, self.receipts.word[chosen]),
        )

    def _identity(self, number: Array) -> dict[str, Any]:
        p, network = self.published, self.network
        life = p.life[number]
        return {
            "publisher": _texts(self._clients, network.client_of[life]),
            "incarnation": network.incarnation[life],
            "stream": _texts(_STREAMS, (p.guarantee[number] != EVENTUAL).astype(np.int64)),
            "seq": p.stream_number[number],
        }

    def _message(self, number: Array) -> dict[str, Any]:
        p = self.published
        return {
            "topic": _texts(TOPICS, p.topic[number]),
            "keys": _KEY_SETS.take(pa.array(_key_set_of(p, number))),
            "guarantee": _texts(GUARANTEES, p.guarantee[number]),
            "payload_bytes": 32 + p.time_us[number] % 64,
        }


def _key_set_of(p: Publications, number: Array) -> Array:
    first, second, other = p.key[number, 0], p.key[number, 1], p.other_topic[number]
    after = np.where(second < 0, 0, 1 + (other + 1) * KEYS + second)
    return np.where(first < 0, 0, 1 + first * (1 + (len(TOPICS) + 1) * KEYS) + after)


def _texts(names: Any, codes: Array) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names, pa.string())).cast(
        pa.string()
    )


def _constant(text: str, size: int) -> Any:
    return _texts([text], np.zeros(size, dtype=np.int32))


def _table(rows: int, **columns: Any) -> Any:
    """With nulls in the columns that are not given."""
    arrays = []
    for field in ARROW_SCHEMA:
        column = columns.get(field.name)
        if column is None:
            column = pa.nulls(rows, field.type)
        elif isinstance(column, np.ndarray):
            column = pa.array(column, type=pa.int64())
        arrays.append(column.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA)
