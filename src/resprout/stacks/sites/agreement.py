"""The log of a site: brokers propose, the leader of the site has it decided, all apply it in the same order.

Who leads is a matter of the site alone, by majority (`replicas`): neighbours and clients are told, and never asked
(correction A6). A command that was proposed may be lost with a leader. So each broker keeps what it has proposed until
it finds it decided, and proposes it again to every new leader.

Nothing is kept on disk: whoever begins another life is another member, and takes the place of the one before it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from resprout.core import limits
from resprout.core.contract import Effect, ProtocolMessage, Send, SetTimer, Timer
from resprout.replicas.messages import Accept, Fetch
from resprout.replicas.options import ReplicaOptions
from resprout.replicas.replica import Chosen, HeartbeatDue, Led, News, PatienceOver, Replica, Restored
from resprout.replicas.values import NO_BALLOT, Ballot
from resprout.stacks.shell.step import Step
from resprout.stacks.sites.commands import Command, Key, decode, encode, key_of, name_of
from resprout.stacks.sites.image import dump, load
from resprout.stacks.sites.messages import Proposal
from resprout.stacks.sites.options import SitesOptions
from resprout.stacks.sites.state import SiteState

AGAIN_US: Final = 3_000_000
"""What is not decided after so long, or twice that, is proposed again."""
SNAPSHOT_SLOTS: Final = 512
"""Slots between two snapshots: what the log has more is in memory, and what a newcomer is told."""
SNAPSHOT_BYTES_MAX: Final = limits.FRAME_BYTES - (1 << 16)
"""A larger state waits: it is large because somebody does not read, and publishers are held back by then."""


class ProposalsDue(Timer, frozen=True):
    """When to propose again what was not decided."""

    @property
    def background(self) -> bool:
        return True


class Agreement:
    def __init__(self, step: Step, site: str, life: str, options: SitesOptions, rng: Random) -> None:
        self._step = step
        self._site = site
        self._options = options
        self._rng = rng
        self.life: Final = life
        self.replica: Replica | None = None
        self.state = SiteState(options)
        self.post: Callable[[str, ProtocolMessage], None]
        """Says something to a life of a broker of this site."""
        self.applied: Callable[[Command], None]
        """A command was applied to the state."""
        self.restored: Callable[[], None]
        """There is another state, and what led to it is not known here."""
        self.led: Callable[[], None]
        """Another broker leads, or nobody."""
        self._pending: dict[Key, bytes] = {}
        self._waits: list[Key] = []
        """What was not decided at the last look."""
        self._numbered = 0
        self._is_timer_set = False
        self._news: deque[News] = deque()
        self._is_running = False
        self._snapshot_due = SNAPSHOT_SLOTS
        self._sent: dict[str, tuple[Ballot, int]] = {}
        """By member: the last slot that it was asked to accept in this session, and in which ballot."""
        self._fetched: dict[str, int] = {}
        """By member: after which slot it was asked for more in this session."""
        self._told = 0
        """Slots up to here were told to be decided, to everybody whom this broker leads."""

    @property
    def is_leading(self) -> bool:
        return self.replica is not None and self.replica.is_leading

    @property
    def members(self) -> tuple[str, ...]:
        return self.replica.ledger.members if self.replica is not None else ()

    @property
    def waiting(self) -> int:
        """Proposals from here that are not decided."""
        return len(self._pending)

    def begin(self, members: Sequence[str], stands: bool = False) -> None:
        """`members`: the first ones of the site; none for a broker that takes the place of an earlier life. `stands`:
        nobody leads yet, and nobody need wait to find that out."""
        options = self._options
        replica = self.replica = Replica(
            self._site, self.life, members, self._rng,
            ReplicaOptions(heartbeat_us=options.heartbeat_us, patience_us=options.patience_us),
        )  # fmt: skip
        out: list[Effect] = []
        now_us = self._step.now_us
        news = replica.start(now_us - options.patience_us if stands else now_us, out)
        if stands:
            news += replica.fired(PatienceOver(self._site), now_us, out)
        self._take(news, out)

    def propose(self, command: Command) -> None:
        """Until it is decided, in this order as far as leaders stay."""
        key = key_of(command)
        if key not in self._pending:
            self._pending[key] = encode(command)
            self._offer(key)
            self._wake()

    def next_no(self) -> int:
        """Of the commands of this life that have numbers."""
        self._numbered += 1
        return self._numbered

    def configure(self, members: Sequence[str]) -> None:
        if self.replica is not None:
            out: list[Effect] = []
            self._take(self.replica.configure(members, self._step.now_us, out)[1], out)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def hear(self, life: str, message: ProtocolMessage) -> None:
        if self.replica is not None:
            out: list[Effect] = []
            self._take(self.replica.hear(life, message, self._step.now_us, out), out)

    def fired(self, timer: HeartbeatDue | PatienceOver) -> None:
        if self.replica is not None:
            out: list[Effect] = []
            self._take(self.replica.fired(timer, self._step.now_us, out), out)

    def hear_proposal(self, message: Proposal) -> None:
        decode(message.command)  # now, while it is its sender that is blamed
        if self.is_leading:
            self._have_decided(message.command)

    def again(self, timer: ProposalsDue) -> None:
        self._is_timer_set = False
        self._offer_all(self._waits)
        self._waits = list(self._pending)
        if self._pending:
            self._wake()

    def session_began(self, name: str) -> None:
        """With a broker of this site: what was said in an earlier one may be lost."""
        for said in (self._sent, self._fetched):
            for member in [member for member in said if name_of(member) == name]:
                del said[member]
        if self.replica is not None and self.replica.leader is not None and name_of(self.replica.leader) == name:
            self._offer_all(list(self._pending))

    def tell(self) -> None:
        """At the end of a step, by a leader: what is decided, without waiting for the next sign of life. The others
        show it only then."""
        replica = self.replica
        if replica is not None and replica.is_leading and self._told < replica.ledger.chosen:
            ledger = replica.ledger
            self._told = ledger.chosen
            for member in ledger.members:
                if member != self.life:
                    self.post(member, Accept(self._site, ledger.promised, ledger.chosen + 1, (), ledger.chosen))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _offer_all(self, keys: Sequence[Key]) -> None:
        for key in keys:
            if key in self._pending:
                self._offer(key)

    def _offer(self, key: Key) -> None:
        replica = self.replica
        if replica is None or replica.leader is None:
            return
        if replica.is_leading:
            self._have_decided(self._pending[key])
        else:
            self.post(replica.leader, Proposal(self._pending[key]))

    def _have_decided(self, command: bytes) -> None:
        assert self.replica is not None, "it leads"
        out: list[Effect] = []
        self._take(self.replica.propose(command, self._step.now_us, out)[1], out)

    def _wake(self) -> None:
        if not self._is_timer_set:
            self._is_timer_set = True
            self._step.out.append(SetTimer(ProposalsDue(), self._step.now_us + AGAIN_US))

    def _take(self, news: Sequence[News], effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                if not self._is_repeat(effect.peer, effect.message):
                    self.post(effect.peer, effect.message)
            elif isinstance(effect, SetTimer):
                self._step.out.append(effect)
        self._news += news
        if self._is_running:
            return
        self._is_running = True
        while self._news:
            self._learn(self._news.popleft())
        self._is_running = False
        self._keep_snapshot()

    def _is_repeat(self, member: str, message: ProtocolMessage) -> bool:
        """Replicas say again what is not answered, as if it could be lost. In a session nothing is, and where it takes
        long that would only make it longer."""
        if isinstance(message, Fetch):
            is_repeat = self._fetched.get(member) == message.after
            self._fetched[member] = message.after
            return is_repeat
        if not isinstance(message, Accept):
            return False
        self._told = message.chosen
        sent = (message.ballot, message.first + len(message.entries) - 1)
        if sent <= self._sent.get(member, (NO_BALLOT, 0)):
            return True
        self._sent[member] = sent
        return False

    def _learn(self, news: News) -> None:
        if isinstance(news, Led):
            self.led()
            if news.leader is not None:
                self._offer_all(list(self._pending))  # it may not have heard of any
        elif isinstance(news, Restored):
            self.state = load(news.snapshot.state, self._options)
            self._snapshot_due = news.snapshot.slot + SNAPSHOT_SLOTS
            self.restored()
        elif isinstance(news, Chosen) and news.entry.command:
            command = decode(news.entry.command)
            self.state.apply(news.slot, command)
            if self.state.has(command):
                self._pending.pop(key_of(command), None)
            self.applied(command)

    def _keep_snapshot(self) -> None:
        replica = self.replica
        if replica is not None and replica.ledger.chosen >= self._snapshot_due:
            self._snapshot_due = replica.ledger.chosen + SNAPSHOT_SLOTS
            state = dump(self.state)
            if len(state) <= SNAPSHOT_BYTES_MAX:
                replica.snapshot(state, [])
