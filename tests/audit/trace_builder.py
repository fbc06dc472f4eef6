"""Traces for tests, written as one reads them."""

from typing import Any

from resprout.core.guarantee import Guarantee
from resprout.trace.schema import Row, texts


class TraceBuilder:
    """Every call adds a row one microsecond after the last."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._published: dict[str, Row] = {}
        self._positions: dict[str, int] = {}
        self._numbers: dict[tuple[str, int, str], int] = {}
        self.incarnation: dict[str, int] = {}

    def add(self, node: str, kind: str, **columns: Any) -> Row:
        row = Row(time_us=len(self.rows), node=node, kind=kind, **columns)
        self.rows.append(row)
        return row

    def subscribe(self, node: str, *filters: str, where: str | None = None) -> None:
        for filter_ in filters:
            self.add(node, "subscribe", filter=filter_, where=where)
            self.add(node, "subscribed", filter=filter_, where=where)

    def publish(self, name: str, topic: str, guarantee: str = "causal", keys: str = "", **attributes: Any) -> None:
        """`name` is how the verdict will call it: `c1:2`, `c1:e1`, or `c1.1:3`."""
        node = name.partition(":")[0].partition(".")[0]
        stream = Guarantee.parse(guarantee).stream
        life = self.incarnation.get(node, 0)
        number = self._numbers[node, life, stream] = self._numbers.get((node, life, stream), 0) + 1
        assert name.endswith(f":{'e' if stream == 'eventual' else ''}{number}"), f"{name} is not the next number"
        self._published[name] = self.add(
            node, "publish", publisher=node, incarnation=life, stream=stream, seq=number, topic=topic,
            guarantee=guarantee, keys=tuple(keys.split()), attributes=texts(attributes),
        )  # fmt: skip

    def identity(self, name: str) -> dict[str, Any]:
        row = self._published[name]
        return {"publisher": row.publisher, "incarnation": row.incarnation, "stream": row.stream, "seq": row.seq}

    def deliver(self, node: str, *names: str, tseq: int | None = None) -> None:
        for name in names:
            position = self._positions.get(node, 0)
            self._positions[node] = position + 1
            row = self._published[name]
            self.add(
                node, "deliver", **self.identity(name), topic=row.topic, guarantee=row.guarantee, keys=row.keys,
                position=position, tseq=tseq,
            )  # fmt: skip

    def receipt(self, name: str, word: str) -> None:
        self.add(self._published[name].node, "receipt", **self.identity(name), receipt=word)

    def restart(self, node: str) -> None:
        self.add(node, "crash")
        self.add(node, "recover")
        self.incarnation[node] = self.incarnation.get(node, 0) + 1
        self._positions[node] = 0

    def applied(self, node: str, name: str, outcome: str = "ok", **balances: int) -> None:
        """Accounts are written `bank_key` for `bank|key`."""
        cells = {account.replace("_", "|"): str(cents) for account, cents in balances.items()}
        self.add(node, "applied", **self.identity(name), attributes={"outcome": outcome, **cells})

    def quiescent(self) -> list[Row]:
        self.add("world", "quiescent")
        return self.rows
