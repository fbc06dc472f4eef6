"""Processing messages (section 3.5), and holding them during a reconfiguration (Algorithm 9, lines 24 to 32).

Messages wait in pools, one for each neighbour and client. A message with a (topic, key) pair that a total has locked
waits until the total is processed. As published, others of the same pool pass it. With `client_queue` they wait behind
it, but for eventual ones; then what travels in its place among the publications (`InPlace`) waits with them.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from resprout.core.bundle import Pair, pairs_of
from resprout.core.contract import SetTimer, Timer
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Publish
from resprout_lab.ginger.messages import Metadata, Stored
from resprout_lab.ginger.state import Entry, Neighbor, State, shown

HOPS_MAX = 64
"""A message that has come so far goes round in a cycle: it is dropped."""
SWEEP_US = 100_000
"""How often a broker looks for messages that it has kept for long enough."""


class KeepOver(Timer, frozen=True):
    """When to forget messages that were kept for others, and to tell publishers that theirs are safe."""


class WorkDone(Timer, frozen=True):
    """When to take the result of a worker."""

    number: int


class InPlace:
    """What came from a neighbour between two publications, and is done in its place."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act


class TotalOrder(Protocol):
    """Totals, as published or in the order of the root."""

    def receive(self, entry: Entry) -> None: ...
    def is_blocked(self, entry: Entry) -> bool: ...
    def has_of(self, publisher: str) -> bool: ...
    def forget(self, entry: Entry) -> None:
        """It was processed elsewhere."""


class Workers:
    """The pool of *nr-actors* workers (section 3.1). A message with a key that is being processed waits for it."""

    def __init__(self, state: State, rng: random.Random) -> None:
        self._state = state
        self._rng = rng
        self._count = 0
        self._queue: deque[tuple[int, tuple[Pair, ...], Callable[[], None]]] = deque()
        self._busy: dict[int, tuple[tuple[Pair, ...], Callable[[], None]]] = {}
        self._done: dict[int, Callable[[], None]] = {}
        self._next = 1
        self._in_order = state.options.corrects("ordered_workers")

    def take(self, pairs: tuple[Pair, ...], work: Callable[[], None]) -> None:
        if not self._state.options.work_us:
            work()
            return
        self._count += 1
        self._queue.append((self._count, pairs, work))
        self._start()

    def _start(self) -> None:
        state = self._state
        for job in list(self._queue):
            if len(self._busy) >= state.options.workers:
                return
            number, pairs, work = job
            if not any(set(pairs) & set(other) for other, _ in self._busy.values()):
                self._queue.remove(job)
                self._busy[number] = (pairs, work)
                took_us = self._rng.randrange(2 * state.options.work_us + 1)
                state.out.append(SetTimer(WorkDone(number), state.now_us + took_us))

    def done(self, timer: WorkDone) -> None:
        self._done[timer.number] = self._busy.pop(timer.number)[1]
        while (ready := self._next if self._in_order else next(iter(self._done), 0)) in self._done:
            self._done.pop(ready)()
            self._next += 1
        self._start()


class Dissemination:
    def __init__(self, state: State, rng: random.Random, is_holding: Callable[[], bool]) -> None:
        self._state = state
        self._is_holding = is_holding
        self.workers = Workers(state, rng)
        self.totals: TotalOrder
        self._kept: deque[tuple[int, Entry, ClientSession | None]] = deque()
        """Until when each processed message is kept, and who has to hear that it is safe then."""
        self._timer_set = False
        self._in_order = state.options.corrects("client_queue")
        self._drops_repeats = state.options.corrects("duplicates")

    # -- in ------------------------------------------------------------------------------------------------------------

    def publish(self, session: ClientSession, message: Publish) -> None:
        """A client's publication."""
        entry = Entry(message.bundle, 0, session.name, message.prompt)
        self.workers.take(self.pairs(entry), lambda: self._enqueue_client(session, message))

    def _enqueue_client(self, session: ClientSession, message: Publish) -> None:
        if self._is_holding():
            self._state.log(f"holding Metadata {shown(message.bundle)} from {session.name}")
        session.waiting.append(message)
        self._drain_client(session)

    def receive_metadata(self, neighbor: Neighbor, message: Metadata) -> None:
        """Algorithm 9. What was asked for in a reconfiguration comes as `LostMessage`; all else may be held."""
        entry = Entry(message.bundle, message.hops, neighbor.name, message.prompt, message.place)
        entry.processed |= message.processed
        if message.hops < HOPS_MAX:
            self._state.keep(entry)
            self.tell_stored(neighbor.name, entry)
            if self._is_holding():
                self._state.log(f"holding Metadata {shown(entry.bundle)} from {neighbor.name}")
            self.workers.take(self.pairs(entry), lambda: self._enqueue(neighbor, entry))

    def tell_stored(self, name: str, entry: Entry) -> None:
        """Of a publication of the neighbour's own client."""
        if entry.hops == 1 and entry.processed and self._state.options.corrects("safe_first"):
            self._state.outbox.pass_by(name, Stored(entry.id))

    def hear_stored(self, neighbor: Neighbor, message: Stored) -> None:
        for entry in self._state.held_back:
            if entry.id == message.id:
                entry.safe = True
                self._state.show_safe()
                break

    def receive_in_place(self, neighbor: Neighbor, act: Callable[[], None]) -> None:
        """As published it is done at once, and may overtake what is held."""
        if self._in_order:
            self.workers.take((), lambda: self._enqueue(neighbor, InPlace(act)))
        else:
            act()

    def _enqueue(self, neighbor: Neighbor, job: Any) -> None:
        if self._state.neighbors.get(neighbor.name) is neighbor:
            neighbor.pool.append(job)
            self._drain(neighbor)
        else:  # it died meanwhile
            self._run(job)

    def release(self) -> None:
        """*releaseOnHoldMessages*, and what waited for a lock."""
        for neighbor in list(self._state.neighbors.values()):
            self._drain(neighbor)
        for session in list(self._state.sessions.all.values()):
            if session.waiting:
                self._drain_client(session)

    def release_all_of(self, neighbor: Neighbor) -> None:
        """It is dead: whatever came from it counts, and no lock may hold what must be handed on."""
        while neighbor.pool:
            self._run(neighbor.pool.popleft())

    def _drain(self, neighbor: Neighbor) -> None:
        pool = neighbor.pool
        waiting: deque[Any] = deque()
        while pool and not self._is_holding():
            job = pool.popleft()
            if self._may_go(neighbor, job, bool(waiting)):
                self._run(job)
            else:
                waiting.append(job)
                if self._in_order and not any(_is_eventual(job) for job in pool):
                    break
        pool.extendleft(reversed(waiting))

    def _may_go(self, neighbor: Neighbor, job: Any, is_behind: bool) -> bool:
        if not self._in_order:
            return not self.totals.is_blocked(job)
        if _is_eventual(job):
            return True
        return not is_behind and (isinstance(job, InPlace) or not self.totals.is_blocked(job))

    def _run(self, job: Any) -> None:
        if isinstance(job, InPlace):
            job.act()
        else:
            self.process(job)
            self._state.let_go(job)

    def _drain_client(self, session: ClientSession) -> None:
        waiting: deque[Publish] = deque()
        while session.waiting and not self._is_holding():
            message = session.waiting.popleft()
            entry = Entry(message.bundle, 0, session.name, message.prompt)
            if self._client_may_go(session, entry, bool(waiting)):
                self._accept(session, entry)
            else:
                waiting.append(message)
                if self._in_order and not any(_is_eventual_bundle(one) for one in session.waiting):
                    break
        session.waiting.extendleft(reversed(waiting))

    def _client_may_go(self, session: ClientSession, entry: Entry, is_behind: bool) -> bool:
        if not self._in_order:
            return not self.totals.is_blocked(entry)
        guarantee = entry.bundle.guarantee
        if guarantee is Guarantee.EVENTUAL:
            return True
        if is_behind or (guarantee is not Guarantee.TOTAL and self.totals.has_of(session.name)):
            return False
        return not self.totals.is_blocked(entry)

    def _accept(self, session: ClientSession, entry: Entry) -> None:
        """A client that came from another broker may publish again what is known here."""
        state = self._state
        if state.seen.has(entry.bundle):
            if not session.gone:
                state.sessions.known(session, entry.bundle, everywhere=False)
        else:
            state.clock += 1
            entry.bundle = entry.bundle.stamped(state.clock)
            self.process(entry)

    def pairs(self, entry: Entry) -> tuple[Pair, ...]:
        """*keyItems*. As published they belong to the topic of the message, also those of another one (G16)."""
        bundle = entry.bundle
        if self._state.whole_tree:
            return pairs_of(bundle.topic, bundle.keys)
        return tuple([(bundle.topic, key) for key in bundle.keys])

    # -- on ------------------------------------------------------------------------------------------------------------

    def process(self, entry: Entry) -> None:
        """Process a message that nothing holds."""
        state, bundle = self._state, entry.bundle
        state.clock = max(state.clock, bundle.stamp)
        if not entry.processed:
            self.totals.receive(entry)
        elif not (state.seen.has(bundle) and (self._drops_repeats or bundle.guarantee is Guarantee.TOTAL)):
            self.totals.forget(entry)
            for name in state.subscribers(bundle):
                if name != entry.source:
                    state.outbox.send(name, Metadata(bundle, entry.hops + 1, True, entry.tseq, entry.prompt))
            self.deliver(entry)

    def deliver(self, entry: Entry) -> None:
        """Give it to the clients that subscribe, and keep it for others."""
        state, bundle = self._state, entry.bundle
        if state.seen.is_new(bundle):
            state.marks.raise_to(bundle.origin, bundle.last)
        entry.processed = True
        state.place(entry)
        state.sessions.address(entry, bundle, state.wishes.table.matches(bundle))
        state.held_back.append(entry)
        if not state.neighbors and not state.dead:  # there is nobody to keep it for
            state.show_safe()
            return
        state.remember(entry)
        publisher, entry.client = entry.client, None  # `safe` is told later
        state.show_safe()
        self._kept.append((state.now_us + state.options.keep_us, entry, publisher))
        if not self._timer_set:
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer_set = True
        at_us = max(self._kept[0][0], self._state.now_us + SWEEP_US)
        self._state.out.append(SetTimer(KeepOver(), at_us))

    def keep_over(self, timer: KeepOver) -> None:
        state = self._state
        self._timer_set = False
        while self._kept and self._kept[0][0] <= state.now_us:
            _, entry, publisher = self._kept.popleft()
            if state.options.corrects("keep"):
                state.evict(entry)
            if publisher is not None and not publisher.gone:
                publisher.turn(entry.stream, ReceiptLevel.SAFE, entry.last)
                state.sessions.turned[publisher.name] = publisher
        if self._kept:
            self._set_timer()


def _is_eventual(job: Any) -> bool:
    return isinstance(job, Entry) and job.bundle.guarantee is Guarantee.EVENTUAL


def _is_eventual_bundle(message: Publish) -> bool:
    return message.bundle.guarantee is Guarantee.EVENTUAL
