"""The log of a site: brokers propose, the leader of the site has it decided, and all apply it in the same order.

The site alone decides by majority who leads (`replicas`): neighbours and clients are told, and never asked (correction
A6). A leader may lose a command that was proposed to it. So each broker keeps what it has proposed until it finds it
decided, and proposes it again to every new leader.

A broker that returns with its disk is the same *member* of the log: it keeps what it promised and accepted. One that
returns without it is another member, replaces the old one, and gets a snapshot of the state as bytes (`dump`, `load`).
Either way it begins another *life*; what the state has of the old life is for the clients of that one.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from resprout.core.contract import ProtocolMessage, SetTimer, Timer
from resprout.replicas.ledger import Chosen, HeartbeatDue, Led, News, PatienceOver, Restored
from resprout.replicas.messages import ReplicaOptions
from resprout.replicas.replica import Replica
from resprout.stacks.shell import Step
from resprout_lab.blocks.replicated import ReplicaInSessions
from resprout_lab.sites.commands import Command, CommandKey, SiteConfig, decode, encode, key_of, name_of
from resprout_lab.sites.messages import Proposal
from resprout_lab.sites.options import SitesOptions
from resprout_lab.sites.state import dump, first_state, load

AGAIN_US: Final = 3_000_000
"""What is not decided after so long, or twice that, is proposed again; then after twice as long each time, because a
leader that has it and a line that is full only need time."""
LOOKS_MAX: Final = 16
"""But not later than after so many times that."""
UNLED_LOOKS: Final = 3
"""So many looks for a leader in vain mean that a majority of the site is missing, and not only its leader."""
OFFERED_MAX: Final = 512
"""Commands of one broker that its leader may have at a time; the rest waits here, in order. With the largest site (7
brokers) that is less than a leader takes (`PENDING_MAX`), so a leader never refuses a proposal of an honest broker."""


class ProposalsDue(Timer, frozen=True):
    """When to propose again what was not decided."""

    @property
    def background(self) -> bool:
        return True


class Agreement:
    def __init__(self, step: Step, config: SiteConfig, life: str, options: SitesOptions, rng: Random) -> None:
        self._step = step
        self._config = config
        self._options = options
        self._rng = rng
        self.life: Final = life
        self.member = life
        """Who it is in the log: its first life with this disk."""
        self._group: ReplicaInSessions | None = None
        self.state = first_state(config, options)
        self.post: Callable[[str, ProtocolMessage], None]
        """Says something to a life of a broker of this site."""
        self.applied: Callable[[Command], None]
        """A command was applied to the state."""
        self.restored: Callable[[], None]
        """There is another state, and what led to it is not known here."""
        self.led: Callable[[], None]
        """Another broker leads, or nobody."""
        self.stalled: Callable[[], None] = lambda: None
        """Nobody leads, and this replica has looked for a leader several times."""
        self.is_clear: Callable[[str], bool]
        """Nothing waits for room on the way to this life."""
        self._waiting: dict[CommandKey, bytes] = {}
        """Proposals that the leader was not told yet, in order."""
        self._offered: dict[CommandKey, bytes] = {}
        """Those that it was told, and that are not decided; all are older."""
        self._looks: dict[CommandKey, int] = {}
        """How often each was found not to be decided."""
        self._unled = 0
        """How often in a row this replica looked for a leader in vain."""
        self._numbered = 0
        self._is_timer_set = False

    @property
    def replica(self) -> Replica | None:
        """None before the site has begun."""
        return self._group.replica if self._group is not None else None

    @property
    def is_leading(self) -> bool:
        return self.replica is not None and self.replica.is_leading

    @property
    def members(self) -> tuple[str, ...]:
        return self.replica.ledger.members if self.replica is not None else ()

    @property
    def waiting(self) -> int:
        """Proposals from here that are not decided."""
        return len(self._offered) + len(self._waiting)

    @property
    def has_leader(self) -> bool:
        """As far as is known here."""
        return self.replica is not None and self.replica.leader is not None

    def begin(
        self,
        members: Sequence[str],
        stands: bool = False,
        identity: bytes = b"",
        records: Sequence[bytes] | None = None,
    ) -> None:
        """`members`: the first ones of the site; none for a broker that takes the place of another member. `stands`:
        nobody leads yet, and nobody need wait to find that out. `identity`, `records`: see `ReplicaInSessions`."""
        options = self._options
        replica = Replica(
            self._config.site, self.member, members, self._rng,
            ReplicaOptions(heartbeat_us=options.heartbeat_us, patience_us=options.patience_us),
        )  # fmt: skip
        self._group = ReplicaInSessions(replica, self._step, self, self.post, identity if options.durable else b"")
        self._group.begin(options.patience_us, stands, records)

    def propose(self, command: Command) -> None:
        """Until it is decided, in this order as far as leaders stay."""
        key = key_of(command)
        if key not in self._offered and key not in self._waiting:
            self._waiting[key] = encode(command)
            self._offer_next()
            self._wake()

    def next_no(self) -> int:
        """Of the commands of this life that have numbers."""
        self._numbered += 1
        return self._numbered

    def stand(self) -> None:
        """Nobody leads yet, and nobody need wait to find that out."""
        if self._group is not None and not self.has_leader:
            self._group.stand()

    def configure(self, members: Sequence[str]) -> None:
        if self._group is not None:
            self._group.configure(members)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def hear(self, life: str, message: ProtocolMessage) -> None:
        if self._group is not None:
            self._group.hear(life, message)

    def fired(self, timer: HeartbeatDue | PatienceOver) -> None:
        if self._group is not None:
            self._group.fired(timer)
            if isinstance(timer, PatienceOver):
                self._unled = 0 if self.has_leader else self._unled + 1
                if self._unled >= UNLED_LOOKS:
                    self.stalled()

    def hear_proposal(self, message: Proposal) -> None:
        decode(message.command)  # now, while it is its sender that is blamed
        if self.is_leading:
            self._have_decided(message.command)

    def again(self, timer: ProposalsDue) -> None:
        self._is_timer_set = False
        leader = self._group.replica.leader if self._group is not None else None
        is_clear = leader is None or self.is_clear(leader)
        for key in list(self._offered):
            looks = self._looks[key] = self._looks.get(key, 0) + 1
            if looks % LOOKS_MAX == 0 or (is_clear and looks > 1 and looks & (looks - 1) == 0):
                self._offer(key)
        if self.waiting:
            self._wake()

    def session_began(self, name: str) -> None:
        """With a broker of this site: what was said in an earlier one may be lost."""
        if self._group is None:
            return
        self._group.forget(lambda member: name_of(member) == name)
        leader = self._group.replica.leader
        if leader is not None and name_of(leader) == name:
            self._offer_anew()

    def tell(self) -> None:
        """At the end of a step, by a leader: what is decided, without waiting for the next sign of life. The others
        show it only then."""
        if self._group is not None:
            self._group.tell()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _offer_anew(self) -> None:
        """To a leader that may not have heard of anything."""
        self._waiting = {**self._offered, **self._waiting}
        self._offered = {}
        self._offer_next()

    def _offer_next(self) -> None:
        """As much as the leader may have at a time."""
        while self._waiting and len(self._offered) < OFFERED_MAX:
            replica = self.replica
            if replica is None or replica.leader is None:
                return
            key = next(iter(self._waiting))
            self._offered[key] = self._waiting.pop(key)
            self._offer(key)

    def _offer(self, key: CommandKey) -> None:
        replica = self.replica
        if replica is None or replica.leader is None:
            return
        if replica.is_leading:
            self._have_decided(self._offered[key])
        else:
            self.post(replica.leader, Proposal(self._offered[key]))

    def _have_decided(self, command: bytes) -> None:
        assert self._group is not None, "it leads"
        if not self._group.replica.has_taken(command):
            self._group.propose(command)

    def _wake(self) -> None:
        if not self._is_timer_set:
            self._is_timer_set = True
            self._step.out.append(SetTimer(ProposalsDue(), self._step.now_us + AGAIN_US))

    # -- the owner of its group (`GroupOwner`) -------------------------------------------------------------------------

    def dump(self) -> bytes:
        return dump(self.state)

    def learn(self, news: News) -> None:
        if isinstance(news, Led):
            self.led()
            if news.leader is not None:
                self._offer_anew()
        elif isinstance(news, Restored):
            self.state = load(news.snapshot.state, self._config, self._options)
            self.restored()
            self._offer_anew()  # what was decided in the slots that were skipped is not known
        elif isinstance(news, Chosen) and news.entry.command:
            command = decode(news.entry.command)
            self.state.apply(news.slot, command)
            if self.state.has(command):
                self._decided(key_of(command))
            self.applied(command)

    def _decided(self, key: CommandKey) -> None:
        """It may have been proposed by an earlier life, or be found decided before this broker offers it."""
        self._looks.pop(key, None)
        if self._offered.pop(key, None) is None:
            self._waiting.pop(key, None)
        else:
            self._offer_next()
