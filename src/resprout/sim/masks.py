"""Clients that connect under the name of another one. The network knows them by that name; in the trace each has its
own, because those who look at a trace have to tell programs apart that a network cannot."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from resprout.scenario.model import ClientSpec
from resprout.trace.schema import Row

LATER_BY: Final = 1_000
"""Lives of the client that takes a name are so much later than those of the one that has it."""

Record = Callable[[Row], None]


class Masks:
    def __init__(self, clients: Sequence[ClientSpec]) -> None:
        self._wearer = {client.called: client.name for client in clients if client.called is not None}

    def worn_by(self, client: ClientSpec, incarnation: int) -> tuple[str, int]:
        """The name and the incarnation that the network is told."""
        return (client.name, incarnation) if client.called is None else (client.called, incarnation + LATER_BY)

    def unmasking(self, client: ClientSpec, record: Record) -> Record:
        if not self._wearer:
            return record

        def unmasked(row: Row) -> None:
            true: dict[str, Any] = {"node": client.name}
            if row.publisher in self._wearer and row.incarnation is not None and row.incarnation > LATER_BY:
                true |= {"publisher": self._wearer[row.publisher], "incarnation": row.incarnation - LATER_BY}
            record(msgspec.structs.replace(row, **true))

        return unmasked
