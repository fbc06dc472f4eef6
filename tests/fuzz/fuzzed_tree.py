"""The network of an episode: honest machines, a liar among them, and a look at what the honest ones do about it."""

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import Any, Final

import msgspec

from resprout.core.contract import Close, Effect, Event, Machine, Received, Retire, Send, Timer
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.broker.guard import Guard, Permit
from resprout.edge.durable_messages import Handed
from resprout.edge.rights import Rights
from resprout.net.sessions import make_codec
from resprout.stacks.resprout import RESPROUT, ResproutBroker, ResproutOptions
from resprout.stacks.resprout.log_broker import LogBroker
from resprout.stacks.stack import BrokerSeat
from tests.fuzz.grammar import Wire
from tests.fuzz.stores import LOGS, STORES, MemoryStores
from tests.stacks.tree import SOON_US, Tree

LOOKS: Final = 10
"""How often a step is looked at in that time."""
BEAT_US: Final = 1_000_000
RECORDED: Final = 400
"""Messages of the conversation that may be replayed."""
STAR: Final[dict[str, str | None]] = {"b0": None, "b1": "b0", "b2": "b0"}
HONEST: Final = {"p": "b0", "near": "b0", "s": "b2", "q": "b2"}
SERVED: Final = {
    broker: tuple([client for client, home in HONEST.items() if home == broker]) for broker in ("b0", "b2")
}
"""By honest broker: its honest clients."""
HONEST_NODES: Final = frozenset({*HONEST, *SERVED})
SERVED_ELSEWHERE: Final = {
    broker: tuple([client for client in HONEST if client not in clients]) for broker, clients in SERVED.items()
}
ORDINARY_ENDS: Final[frozenset[str]] = frozenset()
ALL_RIGHTS: Final = Rights(publish=("#",), subscribe=("#",), operate=True)
LIARS_RIGHTS: Final = Rights(
    publish=("t", "t/#", "u/#", "$kv/#"), subscribe=("t", "t/#", "u/#", "$kv/b/#"), consume=("evil", "evil.*", "ghost")
)
"""It may publish and subscribe where the others do, has durable subscriptions and positions, and is no operator."""
CODEC: Final = make_codec(RESPROUT.messages)


def _ignore(client: str, why: str) -> None:
    """It is refused: fine."""


class FindingError(Exception):
    """An honest node did what it promised not to do."""


class StepTooLongError(FindingError):
    pass


class Silent:
    """The machine of a liar that says nothing of its own accord."""

    def start(self, now_us: int) -> Sequence[Effect]:
        return ()

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        return ()


class FuzzedTree(Tree):
    """A tree that records what is said, and looks at what honest machines do about it."""

    broker_class: type[ResproutBroker] = LogBroker

    def __init__(self, liar: str, seed: int) -> None:
        self.stores = MemoryStores()

        def make(seat: BrokerSeat, options: ResproutOptions, rng: Random) -> ResproutBroker:
            return type(self).broker_class(msgspec.structs.replace(seat, logs=LOGS), options, rng)

        homes = HONEST | ({"evil": "b0"} if liar == "evil" else {})
        super().__init__(STAR, homes, seed=seed, options=ResproutOptions(faults_tolerated=1), make=make)
        self.liar = liar
        self.recorded: list[Any] = []
        """What was said by anybody."""
        self.said: list[Any] = []
        """What the liar's own machine, or the liar, has said."""
        self.handed: deque[Handed] = deque(maxlen=RECORDED)
        """Messages that the liar was handed as a consumer."""
        self.steps = 0
        self.heard = 0
        """Lies that an honest machine was given."""
        self._lies: dict[int, Any] = {}
        """Those under way, by `id`."""
        self._no_timer_due_us = -1
        """At this time no timer was due, and none has become due since."""
        self.handling: Any = None
        self._wire = Wire(CODEC)

    def _new_broker(self, name: str) -> ResproutBroker:
        if name in self.incarnations and name == self.liar:
            last = max(self.incarnations[name], self.outlived)
            self.incarnations[name] = min(last, NUMBER_MAX - 1)  # no `Hello` with a higher number passes the codec
        broker = super()._new_broker(name)
        guard = Guard(lambda client: Permit(LIARS_RIGHTS if client == "evil" else ALL_RIGHTS), _ignore)
        broker.guard = lambda session, message: (message, ()) if session.is_internal else guard(session, message)
        return broker

    @property
    def outlived(self) -> int:
        """The highest life of the liar that an honest broker knows to be over. The liar can raise it."""
        return max([self.honest_broker(name).life.view.tombstones.get(self.liar, 0) for name in SERVED])

    def honest_broker(self, name: str) -> ResproutBroker:
        broker = self.machines[name]
        assert isinstance(broker, ResproutBroker)
        return broker

    def detector(self) -> None:
        """A second passes for what brokers do in the background, in order: a later timer would end leases."""
        until_us = self.now_us + BEAT_US
        for name, timer, at_us in sorted(self._alarms, key=lambda alarm: alarm[2]):
            if timer.background and at_us <= until_us and self._alarms.is_set(name, timer):
                self._fire(name, timer)

    def one(self) -> bool:
        """Time passes only when nothing is under way, and never past a heartbeat: honest brokers keep their leases."""
        choices: list[Any] = self.streams.busy()
        now_us = self.now_us
        if not choices or now_us != self._no_timer_due_us:
            due = [(name, timer) for name, timer, at_us in self._alarms if at_us <= now_us]
            self._no_timer_due_us = -1 if due else now_us
            choices += due
        if not choices:
            soon_us = now_us + SOON_US
            if not any(at_us <= soon_us and not timer.background for _, timer, at_us in self._alarms):
                return False
            first = self._alarms.first()
            assert first is not None
            choices = [first]
        choice = self.rng.choice(choices)
        if isinstance(choice[1], Timer):
            self._fire(*choice)
        else:
            self.arrive(*choice)
        return True

    def go_on(self, steps: int, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Until nothing is left to happen, or for so many steps: a liar may talk for ever."""
        for _ in range(steps):
            if is_enough() or (not self.one() and not self._wait()):
                return

    @property
    def parent_of_liar(self) -> str | None:
        """The honest broker that has an open link to a lying broker."""
        for peer in SERVED:
            if self.honest_broker(peer).life.view.neighbours.get(self.liar):
                return peer
        return None

    def step(self, name: str, event: Event) -> None:
        if name == self.liar:
            self._step_liar(name, event)
            return
        self.handling = (name, event)
        self.steps += 1
        if isinstance(event, Received) and self._lies.pop(id(event.message), None) is not None:
            self.heard += 1
        super().step(name, event)

    def _step_liar(self, name: str, event: Event) -> None:
        """What its own machine makes of answers to lies is of no interest."""
        machine = self.machines.get(name)
        if machine is None:
            return
        try:
            effects = machine.step(event, self.now_us)
        except Exception:
            self.replace_liar()
            return
        self.perform(name, effects)

    def replace_liar(self) -> None:
        """Another life of a liar whose machine has come to an end."""
        if self.liar in self.parents:
            self.crash(self.liar)
            self.recover(self.liar)

    def perform(self, name: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._record(name, effect)
                if effect.peer == self.liar and isinstance(effect.message, Handed):
                    self.handed.append(effect.message)
                if name != self.liar and (fault := self._wire.fault_of(effect.message)):
                    kind = type(effect.message).__name__
                    raise FindingError(
                        f"{effect.peer} cannot read a {kind} of {name}: {fault} [{short(effect.message)}]"
                    )
            elif name != self.liar and isinstance(effect, Close) and effect.peer in HONEST_NODES:
                if effect.reason not in ORDINARY_ENDS:
                    raise FindingError(f"{name} closes its session with {effect.peer}: {effect.reason}")
            elif name == self.liar and isinstance(effect, Retire):
                self.incarnations[name] = max(self.incarnations[name], effect.above or 0)
            elif isinstance(effect, Retire):
                raise FindingError(f"{name} ends its life: {effect.reason}")
        stored = [effect for effect in effects if isinstance(effect, STORES)]
        super().perform(name, [effect for effect in effects if not isinstance(effect, STORES)])
        for event in self.stores.perform(name, stored):
            self.step(name, event)

    def _record(self, name: str, effect: Send) -> None:
        for kept in (self.recorded, self.said) if name == self.liar else (self.recorded,):
            if len(kept) < RECORDED:
                kept.append(effect.message)
            else:
                kept[self.steps * 7919 % RECORDED] = effect.message

    def forge(self, sender: str, receiver: str, message: Any) -> None:
        self._lies[id(message)] = message
        super().forge(sender, receiver, message)

    def let_arrive(self, sender: str, receiver: str) -> None:
        """Everything that is under way on this link now."""
        for _ in self.streams.between(sender, receiver):
            if not self.streams.between(sender, receiver):
                return
            self.arrive(sender, receiver)

    def put_in_place(self, name: str, machine: Machine) -> None:
        self.machines[name] = machine

    def connect(self, name: str, peer: str) -> None:
        """A new session, in place of the one that stands."""
        if (name, peer) in self.sessions:
            self._close(name, peer, "it comes again")
        self._connect(name, peer)


@contextmanager
def no_endless_step(tree: FuzzedTree, most: float) -> Iterator[None]:
    """StepTooLongError when one step takes more processor time than this."""
    seen = [-1, 0]
    """The step at the last look, and at how many looks it was the same."""

    def look(number: int, frame: FrameType | None) -> None:
        seen[:] = [tree.steps, seen[1] + 1 if seen[0] == tree.steps else 0]
        if seen[1] >= LOOKS:
            where = f"{frame.f_code.co_filename.rpartition('resprout/')[2]}:{frame.f_lineno}" if frame else ""
            raise StepTooLongError(f"a step takes more than {most:g} s of processor time [{where}]")

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, most / LOOKS, most / LOOKS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def short(value: Any) -> str:
    """Return how a finding shows a message or an event."""
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
