"""Counts what passes a broker, whatever its stack: it stands between the links and the stack, and changes nothing.

Only the real driver has one, so a simulation is what it was. What it costs is paid once for each bundle and copy: some
additions, and a line in the memory of the latest publications (`passages`). How long a receipt took is known for all
publications, not for some of them: one that takes long is not left out because others wait behind it.
"""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any, Final

from resprout.core.bundle import Bundle
from resprout.core.contract import Effect, Event, LinkDown, Machine, Received, Send
from resprout.core.guarantee import ReceiptLevel
from resprout.edge.broker.passages import Passage, Passages
from resprout.edge.broker.tally import LatencyCounts, TrafficTally
from resprout.edge.messages import Delivery, Publish, PublishRefused, SubscribeRefused, Turned

WAITING_MAX: Final = 32_768
"""Bundles that wait for a receipt and are timed; others are only counted."""

_NOTHING, _PUBLISH, _CARRIES, _DELIVERY, _TURNED, _NO_PUBLISH, _NO_SUBSCRIBE = range(7)

Waiting = OrderedDict[int, tuple[int, int, Passage]]
"""By last number of a bundle: how many publications it holds, since when it waits, and its passage."""
Streams = dict[str, Waiting]


class Meter:
    """`receipts`: the levels that the stack tells of."""

    def __init__(
        self, machine: Machine, tally: TrafficTally, passages: Passages, receipts: Collection[ReceiptLevel]
    ) -> None:
        self.machine = machine
        self._step = machine.step
        self._tally = tally
        self._passages = passages
        self._kinds: dict[type[Any], int] = {
            Publish: _PUBLISH,
            Delivery: _DELIVERY,
            Turned: _TURNED,
            PublishRefused: _NO_PUBLISH,
            SubscribeRefused: _NO_SUBSCRIBE,
        }
        self._times_safe = ReceiptLevel.SAFE in receipts
        self._times_delivered = ReceiptLevel.DELIVERED in receipts
        self._unsafe: dict[str, Streams] = {}
        self._undelivered: dict[str, Streams] = {}
        """By client and stream."""
        self._timed = 0

    def latest_life(self, client: str) -> int:
        latest = getattr(self.machine, "latest_life", None)
        return latest(client) if latest is not None else 0

    def start(self, now_us: int) -> Sequence[Effect]:
        effects = self.machine.start(now_us)
        self._look(effects, now_us)
        return effects

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        if type(event) is Received:
            kind = self._kinds.get(type(event.message), -1)
            if kind:
                self._heard(event.peer, event.message, kind, now_us)
        elif type(event) is LinkDown:
            self._forget(event.peer)
        effects = self._step(event, now_us)
        if effects:
            self._look(effects, now_us)
        return effects

    # -- in ------------------------------------------------------------------------------------------------------------

    def _heard(self, peer: str, message: Any, kind: int, now_us: int) -> None:
        if kind < 0:
            kind = self._learn(type(message))
        if kind == _CARRIES:
            bundle: Bundle = message.bundle
            self._tally.carried += bundle.count
            self._passages.see(bundle, peer, False, now_us)
        elif kind == _PUBLISH:
            bundle = message.bundle
            self._tally.published += bundle.count
            self._tally.published_bytes += bundle.cost
            passage = self._passages.see(bundle, peer, True, now_us)
            if self._timed < WAITING_MAX:
                if self._times_safe:
                    self._wait(self._unsafe, peer, bundle, now_us, passage)
                if self._times_delivered:
                    self._wait(self._undelivered, peer, bundle, now_us, passage)
            else:
                self._tally.unmeasured += bundle.count

    def _learn(self, kind: type[Any]) -> int:
        """Whatever else carries a bundle is said from broker to broker."""
        learnt = self._kinds[kind] = _CARRIES if "bundle" in kind.__struct_fields__ else _NOTHING
        return learnt

    def _wait(self, clients: dict[str, Streams], client: str, bundle: Bundle, now_us: int, passage: Passage) -> None:
        streams = clients.get(client)
        if streams is None:
            streams = clients[client] = {}
        waiting = streams.get(bundle.stream)
        if waiting is None:
            waiting = streams[bundle.stream] = OrderedDict()
        if bundle.last not in waiting:  # said again, it waits since it was said first
            waiting[bundle.last] = (bundle.count, now_us, passage)
            self._timed += 1

    def _forget(self, client: str) -> None:
        for clients in (self._unsafe, self._undelivered):
            self._timed -= sum([len(waiting) for waiting in clients.pop(client, {}).values()])

    # -- out -----------------------------------------------------------------------------------------------------------

    def _look(self, effects: Sequence[Effect], now_us: int) -> None:
        kinds, tally = self._kinds, self._tally
        bundle: Bundle | None = None
        passage: Passage | None = None
        for effect in effects:
            if type(effect) is not Send:
                continue
            message = effect.message
            kind = kinds.get(type(message), -1)
            if kind == _NOTHING:
                continue
            if kind < 0:
                kind = self._learn(type(message))
            if _CARRIES <= kind <= _DELIVERY:
                if message.bundle is not bundle:
                    bundle = message.bundle
                    passage = self._passages.of(bundle)
                if kind == _DELIVERY:
                    tally.delivered += bundle.count
                    tally.delivered_bytes += bundle.cost
                    if passage is not None:
                        passage.give_to(effect.peer, now_us)
                else:
                    tally.passed_on += bundle.count
                    if passage is not None:
                        passage.pass_to(effect.peer, now_us)
            elif kind == _TURNED:
                self._turned(effect.peer, message, now_us)
            elif kind == _NO_PUBLISH:
                tally.refused_publications += message.count
                for clients in (self._unsafe, self._undelivered):
                    self._take(clients, effect.peer, message.stream, message.first, message.first + message.count - 1)
            elif kind == _NO_SUBSCRIBE:
                tally.refused_subscriptions += 1

    def _turned(self, client: str, message: Turned, now_us: int) -> None:
        level, tally = message.receipt, self._tally
        if level is ReceiptLevel.ACCEPTED:
            return
        first, last, stream = message.first, message.seq, message.stream
        for count, since_us, passage in self._take(self._unsafe, client, stream, first, last):
            _count(tally, "safe", tally.safe_latency, count, now_us - since_us)
            passage.safe_us = now_us
        if level is ReceiptLevel.DELIVERED:
            for count, since_us, passage in self._take(self._undelivered, client, stream, first, last):
                _count(tally, "delivered", tally.spread_latency, count, now_us - since_us)
                passage.delivered_us = now_us

    def _take(
        self, clients: dict[str, Streams], client: str, stream: str, first: int, last: int
    ) -> list[tuple[int, int, Passage]]:
        """Those of a client that wait no more. From the beginning in the order of numbers; or some in between, which
        happens where one reader is behind."""
        streams = clients.get(client)
        waiting = streams.get(stream) if streams is not None else None
        if not waiting:
            return []
        taken: list[tuple[int, int, Passage]] = []
        if first > 1:
            taken = [waiting.pop(number) for number in range(first, last + 1) if number in waiting]
        else:
            while waiting and (number := next(iter(waiting))) <= last:
                taken.append(waiting.pop(number))
        self._timed -= len(taken)
        return taken


def _count(tally: TrafficTally, level: str, latency: LatencyCounts, count: int, took_us: int) -> None:
    tally.receipts[level] += count
    latency.add(took_us, count)
