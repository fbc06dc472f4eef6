"""What each subscriber may have unread at its broker, and what happens when that is too much.

A share is `subscriber_bytes`. It counts what was shown to a subscriber and not taken: what waits at the broker, what is
on its way, and what waits in the client for its program. A subscriber that uses more than half of its share is watched.
When the share is full, its policy decides (`WhenFull`):

- Publishers of its topics wait, in the whole network, until half of the share is free (`pauses`). This holds for
  "block", for durable subscriptions that keep everything, for those that spill when the disk is full, and for clients
  of a dead broker that have not returned yet.
- The broker drops the oldest of what waits and tells the client which messages those are. They stay in the log, and
  their `delivered` waits, until the client has acknowledged the notice.
- The session ends ("disconnect", the default), if the subscriber has taken less than a sixteenth of its share within
  `slow_consumer_us`. Until then publishers of its topics wait: it may only be slow. Nobody waits for a subscriber whose
  identity had one cut off in the last `REPEAT_US`: it would be waited for again and again.
"""

from collections import deque
from typing import Final

from resprout.core.contract import EndCode, SetTimer, Timer
from resprout.edge.broker.consumers import PREFIX
from resprout.edge.broker.quotas import party_of
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.durable_messages import WhenFull
from resprout.order.log import Log
from resprout.spread.interest import Interest
from resprout.stacks.resprout.durables import Durables
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.pauses import Pauses
from resprout.stacks.resprout.served_clients import ServedClients
from resprout.stacks.resprout.spilling import Spilling

PROGRESS_SHARE: Final = 16
"""A watched subscriber that takes one in so many bytes of its share within `slow_consumer_us` is not cut off."""
UNDROPPABLE_BYTES: Final = 64 << 20
"""What a client that drops the oldest may have in its own hands beyond its share, with dropped messages of which it has
not acknowledged the notice."""
RECENT_US: Final = 60_000_000
"""So long people are told of a subscriber that was cut off, besides the line in the log."""
REPEAT_US: Final = 60_000_000
"""So long nobody waits for another subscriber of an identity that had one cut off."""
RECENT_MAX: Final = 100
COPIES: Final = "copies on disk"
"""What is announced where the disk has no room for copies that are kept for spilling subscriptions elsewhere."""


class LookAtReaders(Timer, frozen=True):
    """When to look again at a subscriber that may have to be cut off."""


class _Watch:
    __slots__ = ("is_full", "session", "since_us", "taken_bytes")

    def __init__(self, session: ClientSession, now_us: int) -> None:
        self.session = session
        self.since_us = now_us
        """Since then it has taken too little."""
        self.taken_bytes = session.taken_bytes
        self.is_full = False
        """Its share was full, and half of it is not free yet."""


class Shares:
    def __init__(
        self,
        life: BrokerLife,
        log: Log,
        interest: Interest,
        sessions: ClientSessions,
        spilling: Spilling,
        pauses: Pauses,
        served: ServedClients,
        durables: Durables,
    ) -> None:
        self._life = life
        self._log = log
        self._interest = interest
        self._sessions = sessions
        self._spilling = spilling
        self._pauses = pauses
        self._served = served
        self._durables = durables
        self._share = life.options.subscriber_room
        self.watched: dict[str, _Watch] = {}
        self._recent: deque[tuple[int, str]] = deque(maxlen=RECENT_MAX)
        """Subscribers that were cut off: when, and how much was unread."""
        self._cut_off_us: dict[str, int] = {}
        """By identity, or client: when a subscriber of it was cut off last."""
        self.slow_consumers = 0
        """Subscribers that were cut off in this life."""
        self.dropped_messages = 0
        """Messages that were dropped because subscribers were slow."""

    def watch(self) -> None:
        """At the end of a step in which subscribers have come to use more than half of their shares."""
        filling = self._sessions.filling
        for name, session in filling.items():
            watch = self.watched.get(name)
            if watch is None or watch.session is not session:
                self.watched[name] = _Watch(session, self._life.now_us)
        filling.clear()

    def look(self) -> None:
        """At the end of each step while somebody is watched."""
        for name, watch in list(self.watched.items()):
            session = watch.session
            if session.gone or session.owed_bytes <= self._share // 2:
                del self.watched[name]
                self._pauses.end(name)
            else:
                self._judge(watch, session)

    def look_at_copies(self) -> None:
        """With the signs of life, and while copies for spilling subscriptions elsewhere find no room on this disk."""
        if self._log.stuck_bytes > self._share:
            self._pauses.begin(COPIES, self._spilling.filters)
        elif self._log.stuck_bytes <= self._share // 2:
            self._pauses.end(COPIES)

    def _judge(self, watch: _Watch, session: ClientSession) -> None:
        life = self._life
        if session.taken_bytes - watch.taken_bytes >= max(1, self._share // PROGRESS_SHARE):
            watch.since_us, watch.taken_bytes = life.now_us, session.taken_bytes
        if session.owed_bytes > self._share:
            watch.is_full = True
        if not watch.is_full:
            return
        policy = self._policy(session)
        if policy is WhenFull.DROP_OLDEST:
            self._drop(watch, session)
        elif policy is WhenFull.SPILL and not self._spilling.is_full:
            self._pauses.end(session.name)
        elif policy is WhenFull.DISCONNECT and session.owed_bytes > self._share and self._is_slow(watch):
            self._cut_off(session)
        else:
            self._pauses.begin(session.name, self._filters(session))

    def _is_slow(self, watch: _Watch) -> bool:
        life = self._life
        due_us = watch.since_us + life.options.slow_consumer_us
        if life.now_us >= due_us or self._was_cut_off(party_of(watch.session)):
            return True
        life.out.append(SetTimer(LookAtReaders(), due_us))
        return False

    def _was_cut_off(self, party: str) -> bool:
        at_us = self._cut_off_us.get(party)
        return at_us is not None and self._life.now_us - at_us < REPEAT_US

    def _policy(self, session: ClientSession) -> WhenFull:
        if session.is_inner:
            return self._durables.consumers.held[session.name[len(PREFIX) :]].terms.when_full
        return session.when_full if session.attending else WhenFull.BLOCK  # the latter stands for clients elsewhere

    def _filters(self, session: ClientSession) -> list[str]:
        return [predicate.filter for predicate in self._interest.index.predicates_of(session.name)]

    def _drop(self, watch: _Watch, session: ClientSession) -> None:
        life = self._life
        watch.is_full = False
        if session.is_inner:
            return  # the queue itself drops (`SharedQueue.drop_oldest`)
        dropped = self._sessions.drop_oldest(session, self._share * 3 // 4, life.out)
        if dropped:
            self.dropped_messages += dropped
            life.note("slow_consumer", f"{session.name} does not read fast enough: {dropped} messages dropped")
        if session.owed_bytes + session.dropped_bytes > self._share + UNDROPPABLE_BYTES:
            self._cut_off(session)

    def _cut_off(self, session: ClientSession) -> None:
        life = self._life
        limit, waits_s = life.options.subscriber_room / (1 << 20), life.options.slow_consumer_us / 1e6
        unread_bytes = session.owed_bytes + session.dropped_bytes
        reason = (
            f"slow consumer: {unread_bytes / (1 << 20):.1f} MiB were unread at {life.seat.name}, which keeps "
            f"{limit:.1f} MiB for a subscriber that takes too little within {waits_s:g} s"
        )
        self.slow_consumers += 1
        self._cut_off_us = {party: at_us for party, at_us in self._cut_off_us.items() if self._was_cut_off(party)}
        self._cut_off_us[party_of(session)] = life.now_us
        unread = f"{session.name}: {unread_bytes / (1 << 20):.1f} MiB were unread"
        self._recent.append((life.now_us, unread))
        life.note("slow_consumer", f"{session.name} was cut off: {reason}")
        self._served.cut_off(session.name, reason, EndCode.SLOW)
        del self.watched[session.name]
        self._pauses.end(session.name)

    def recent_lines(self) -> list[str]:
        """Subscribers that were cut off a moment ago, for people."""
        now_us = self._life.now_us
        return [
            f"slow consumer cut off {(now_us - at_us) / 1e6:.0f} s ago: {unread}"
            for at_us, unread in self._recent
            if now_us - at_us < RECENT_US
        ]
