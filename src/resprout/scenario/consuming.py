"""A client of a scenario that consumes a durable subscription: what is asked of its machine, and its rows.

It acknowledges everything that it is handed, at once, or as slowly as it reads. Every driver uses it.
"""

from collections.abc import Iterator
from typing import Any

from resprout.core.contract import Answer, Deliver
from resprout.core.message import Message
from resprout.edge.client.consumer import ConsumerMachine
from resprout.edge.durable_messages import Terms, WhenFull
from resprout.edge.requests import ConsumerBegan, ConsumerOver, DroppedBefore
from resprout.scenario.model import ClientSpec, SubscriptionSpec
from resprout.scenario.observe import ClientRows
from resprout.trace import kinds
from resprout.trace.schema import Row


def make_consumer(
    spec: ClientSpec, wanted: SubscriptionSpec, incarnation: int, others: tuple[str, ...]
) -> ConsumerMachine:
    assert wanted.durable is not None
    when_full = WhenFull.SPILL if wanted.spills else WhenFull.BLOCK
    terms = Terms(wanted.filter, wanted.where, wanted.group, when_full)
    return ConsumerMachine(spec.name, incarnation, spec.broker, wanted.durable, terms, others=others)


class ConsumerRows:
    """Of one life."""

    def __init__(self, spec: ClientSpec, wanted: SubscriptionSpec, incarnation: int) -> None:
        self._node = spec.name
        self._wanted = wanted
        self._rows = ClientRows(spec.name, incarnation)
        self._dropped = 0

    def began(self, time_us: int) -> Row:
        more = {"group": "yes"} if self._wanted.group else {}
        return self._row(time_us, kinds.CONSUME, more, filter=self._wanted.filter, where=self._wanted.where)

    def given(self, time_us: int, effect: Deliver | Answer) -> Iterator[Row]:
        if isinstance(effect, Deliver):
            for message in effect.messages:
                yield self._handed(time_us, message)
        elif isinstance(effect.body, ConsumerBegan):
            yield self._row(time_us, kinds.CONSUMING, {}, filter=self._wanted.filter, where=self._wanted.where)
        elif isinstance(effect.body, ConsumerOver):
            yield self._row(time_us, kinds.CONSUME_OVER, {}, detail=effect.body.reason)
        elif isinstance(effect.body, DroppedBefore):
            self._dropped += effect.body.count
        else:
            yield from self._rows.told(time_us, effect.body)

    def acknowledged(self, time_us: int, message: Message) -> Row:
        return self._row(
            time_us,
            kinds.ACKNOWLEDGED,
            {},
            publisher=message.publisher,
            incarnation=message.incarnation,
            stream=message.stream,
            seq=message.seq,
        )

    def _handed(self, time_us: int, message: Message) -> Row:
        more = {"redelivered": "yes"} if message.redelivered else {}
        if self._dropped:
            more["dropped"], self._dropped = str(self._dropped), 0
        row = self._rows.delivered(time_us, message)
        columns = {name: getattr(row, name) for name in row.__struct_fields__}
        return Row(**{**columns, "kind": kinds.HANDED, "attributes": self._about(more)})

    def _about(self, more: dict[str, str]) -> dict[str, str]:
        return {"durable": self._wanted.durable or "", **more}

    def _row(self, time_us: int, kind: str, more: dict[str, str], **columns: Any) -> Row:
        return Row(time_us=time_us, node=self._node, kind=kind, attributes=self._about(more), **columns)
