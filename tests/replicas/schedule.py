"""One drawn schedule: replicas over a network that loses, doubles and reorders, with crashes, restarts from what was
on disk at that moment, snapshots and changes of the configuration. In the end all heals, and there must be progress."""

from functools import partial
from itertools import count
from random import Random
from typing import Any

import msgspec

from resprout.core.contract import Effect, Persist, Send, SetTimer
from resprout.replicas.ledger import Chosen, Led, News, Restored
from resprout.replicas.messages import ReplicaOptions
from resprout.replicas.replica import Replica
from tests.network import Time
from tests.replicas.decisions import Decisions, Word

HASTY = (
    ReplicaOptions(heartbeat_us=20, patience_us=60),
    ReplicaOptions(heartbeat_us=50, patience_us=200),
    ReplicaOptions(heartbeat_us=50, patience_us=200, batch_bytes_max=8),
)
"""Shorter than many messages take: leaders are replaced while they lead. With messages that hold two or three commands,
whoever stands has to fetch most of what it missed."""
STEPS_MAX = 60_000
PROGRESS_US = 200_000
NAMES_MAX = 8


class Schedule(Time):
    def __init__(self, seed: int, restless_us: int = 6_000) -> None:
        super().__init__()
        self.rng = rng = Random(seed)
        self.seed = seed
        self.decisions = Decisions()
        self.restless_us = restless_us
        self.running: dict[str, Replica] = {}
        self.disks: dict[str, list[bytes]] = {}
        self.runs: dict[str, int] = {}
        self.states: dict[str, list[bytes]] = {}
        self.timers: dict[tuple[str, Any], int] = {}
        self.options = rng.choice(HASTY)
        self.loss = rng.choice((0.0, 0.05, 0.3))
        self.doubling = rng.choice((0.0, 0.1))
        self.crash_rate = rng.choice((0.0, 0.002, 0.01))
        self.cut: set[str] = set()
        self._commands = count()
        self.members = tuple(f"r{i}" for i in range(rng.choice((1, 2, 3, 3, 5))))
        self._founders = self.members
        for name in self.members:
            self.begin(name)

    # -- replicas and their disks --------------------------------------------------------------------------------------

    def begin(self, name: str) -> None:
        self.runs[name] = self.runs.get(name, 0) + 1
        self.states[name] = []
        known = self._founders if name in self._founders else ()
        replica = self.running[name] = Replica("g", name, known, Random(self.rng.random()), self.options)
        out: list[Effect] = []
        news = replica.start(self.now_us, out, self.disks.setdefault(name, []))
        self._perform(name, out, news)

    def crash(self, name: str) -> None:
        self.running.pop(name, None)
        self.timers = {key: at for key, at in self.timers.items() if key[0] != name}

    def _perform(self, name: str, out: list[Effect], news: list[News]) -> None:
        """A crash may come between any two effects; what was listed before it is done."""
        cut = len(out)
        if self.now_us < self.restless_us and self.rng.random() < self.crash_rate:
            cut = self.rng.randint(0, len(out))
        for effect in out[:cut]:
            if isinstance(effect, Persist):
                self.disks[name].append(effect.record)
            elif isinstance(effect, Send):
                self._transmit(name, effect.peer, effect.message)
            elif isinstance(effect, SetTimer):
                key = (name, effect.timer)
                self.timers[key] = effect.at_us
                self.at(effect.at_us, partial(self._fire, key, effect.at_us))
        if cut < len(out):
            self.crash(name)
            return
        for item in news:
            self._hear(name, item)

    def _hear(self, name: str, news: News) -> None:
        run = self.runs[name]
        if isinstance(news, Restored):
            state = msgspec.msgpack.decode(news.snapshot.state, type=list[bytes])
            self.decisions.restored(name, run, news.snapshot.slot, state)
            self.states[name] = state
        elif isinstance(news, Chosen):
            entry = news.entry
            word: Word = ("nothing", None)
            if entry.lives:
                word = ("members", entry.lives)
            elif entry.command:
                word = ("command", entry.command)
                self.states[name].append(entry.command)
            self.decisions.chosen(name, run, news.slot, word)
        else:
            assert isinstance(news, Led)

    # -- the network ---------------------------------------------------------------------------------------------------

    def _transmit(self, sender: str, to: str, message: Any) -> None:
        rng = self.rng
        calm = self.now_us >= self.restless_us
        copies = 1 if calm else (rng.random() >= self.loss) + (rng.random() < self.doubling)
        if not calm and (sender in self.cut) != (to in self.cut):
            copies = 0
        for _ in range(copies):
            delay_us = rng.randint(1, 5) if calm else rng.choice((1, 10, rng.randint(1, 150), rng.randint(1, 1_000)))
            self.after(delay_us, partial(self._arrive, sender, to, message))

    # -- time ----------------------------------------------------------------------------------------------------------

    def _fire(self, key: tuple[str, Any], due_us: int) -> None:
        name, timer = key
        if self.timers.get(key) == due_us and name in self.running:
            del self.timers[key]
            out: list[Effect] = []
            self._perform(name, out, self.running[name].fired(timer, self.now_us, out))

    def _arrive(self, sender: str, name: str, message: Any) -> None:
        if name in self.running:
            out: list[Effect] = []
            self._perform(name, out, self.running[name].hear(sender, message, self.now_us, out))

    def mishap(self) -> None:
        """What happens beside messages and timers, while the network is restless."""
        rng = self.rng
        match rng.randrange(8):
            case 0 | 1 | 2:
                self.propose()
            case 3 if self.running:
                name = rng.choice(sorted(self.running))
                replica = self.running[name]
                self.disks[name] = replica.snapshot(msgspec.msgpack.encode(self.states[name]), [])
            case 4 if len(self.disks) < NAMES_MAX:
                self.reconfigure()
            case 5:
                self.cut = {name for name in sorted(self.disks) if rng.random() < 0.3} if rng.random() < 0.5 else set()
            case 6:
                for name in sorted(self.disks):
                    if name not in self.running:
                        self.begin(name)
            case _ if self.running and self.crash_rate:
                self.crash(rng.choice(sorted(self.running)))

    def propose(self) -> None:
        for name in sorted(self.running):
            command = b"c%d" % next(self._commands)
            self.decisions.proposed.add(command)
            out: list[Effect] = []
            _, news = self.running[name].propose(command, self.now_us, out)
            self._perform(name, out, news)

    def reconfigure(self) -> None:
        rng = self.rng
        names = [*sorted(self.disks), f"r{len(self.disks)}"]
        members = tuple(rng.sample(names, rng.randint(1, min(5, len(names)))))
        self.decisions.configurations.add(members)
        for name in sorted(self.running):
            out: list[Effect] = []
            taken, news = self.running[name].configure(members, self.now_us, out)
            self._perform(name, out, news)
            if taken and names[-1] in members and names[-1] not in self.disks:
                self.begin(names[-1])

    def run(self) -> None:
        """AssertionError for what must not be, or when there is no progress in the end."""
        steps = 0
        while self.now_us < self.restless_us and steps < STEPS_MAX:
            if not self.pass_on():
                self.now_us += 50
            if self.rng.random() < 0.1 or self.next_us is None:
                self.mishap()
            steps += 1
        self.now_us = max(self.now_us, self.restless_us)
        self.cut = set()
        for name in sorted(self.disks):
            if name not in self.running:
                self.begin(name)
        self._progress(steps)

    def _progress(self, steps: int) -> None:
        wanted = b"the last"
        self.decisions.proposed.add(wanted)
        end_us = self.now_us + PROGRESS_US
        while steps < STEPS_MAX and self.now_us < end_us and self.pass_on():
            steps += 1
            if steps % 20 == 0 and wanted not in {v for k, v in self.decisions.slots.values() if k == "command"}:
                for name in sorted(self.running):
                    out: list[Effect] = []
                    _, news = self.running[name].propose(wanted, self.now_us, out)
                    self._perform(name, out, news)
            if self._everybody_has(wanted):
                return
        raise AssertionError(f"no progress after {steps} steps, {self.now_us} us")

    def _everybody_has(self, wanted: bytes) -> bool:
        last = max((s for s, word in self.decisions.slots.items() if word == ("command", wanted)), default=None)
        if last is None:
            return False
        changes = [slot for slot, (kind, _) in self.decisions.slots.items() if kind == "members"]
        members = self.decisions.slots[max(changes)][1] if changes else self._founders
        assert isinstance(members, tuple)
        return all(wanted in self.states[name] for name in members)
