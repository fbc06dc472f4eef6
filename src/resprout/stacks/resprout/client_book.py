"""What this broker knows of clients elsewhere: who listens where, and the latest life of each name.

Brokers tell each other who listens where (`ListenerBook`), the latest life of each name (`Roll`), and durable
subscriptions (`durable_book`): changes as they happen, and everything at the beginning of a new link.

`Audience` answers whether anybody listens to a topic. A subscription is confirmed when every broker has it in its
interest, so where no neighbour and no local client wants any of the topics, no client in the network has a confirmed
subscription to them. That is certain, unless a repair is going on next to this broker. The opposite is not: a client
that has just left may still be known, a condition may not hold, and the client of a dead broker may never return.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from resprout.core.contract import Send
from resprout.core.errors import PeerError
from resprout.edge.broker.ghosts import Ghosts
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.messages import TOPICS_MAX, AskAudience, AudienceTold
from resprout.order.link import Link
from resprout.overlay.messages import Life
from resprout.spread.interest import Interest
from resprout.spread.messages import Outbound
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.durable_book import DurableBook
from resprout.stacks.resprout.durable_state import DurableIds
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import (
    ClientBegan,
    KnownClient,
    KnownDurable,
    KnownMessageIds,
    Listener,
    ListenersChanged,
    ListenersHeard,
    ParcelRow,
    Superseded,
)
from resprout.stacks.resprout.pauses import Pauses
from resprout.stacks.resprout.repair.parcels import Parcel

NAMES_KEPT: Final = 100_000
"""Of clients, in the roll: those that are remembered for certain, the latest ones; up to twice as many are."""
NAMES_TOLD: Final = 500
"""Of clients, in one `ListenersChanged`."""


class ClientBook:
    def __init__(self, listeners: "ListenerBook", roll: "Roll", durables: DurableBook, pauses: Pauses) -> None:
        self.listeners = listeners
        self.roll = roll
        self.durables = durables
        self._pauses = pauses

    def rows(self, dead: str | None = None) -> Iterator[ParcelRow]:
        """Return the rows of a parcel about clients; for an `Attach` also what is known of the dead neighbour."""
        yield from self.listeners.rows(dead)
        yield from map(KnownClient, self.roll.lives())
        yield from map(KnownDurable, self.durables.whole_states())
        for subscription, ids in self.durables.all_ids():
            yield KnownMessageIds(DurableIds(subscription, ids))

    def meet(self, neighbour: str, parcel: Parcel) -> None:
        """The first word of a new neighbour."""
        self.listeners.meet(neighbour, parcel)
        self.roll.learn(parcel.clients, neighbour)
        if parcel.durables or self.durables.states:
            self.durables.meet(neighbour, parcel.durables, parcel.ids)
        self._pauses.meet(neighbour)

    def lost(self, neighbour: str) -> set[str]:
        """It is replaced by others. Tells whom it stood for."""
        self.durables.lost(neighbour)
        return self.listeners.lost(neighbour)


class ListenerBook:
    """Who listens where: the clients with subscriptions that each neighbour stands for.

    Whoever repairs a dead broker keeps everything for its clients until they return. To know when all of them have,
    somebody must know who they were, so every broker tells its neighbours. No subscription of a client is confirmed to
    it before all of them have heard of the client: a wish that is covered by what is asked already is confirmed without
    a word to anybody. One that has no confirmed subscription is owed nothing, and need not be waited for. Neither is a
    client that runs inside its broker (`ClientSession.is_internal`): it ends with the broker and never returns.

    A broker also stands for the clients that its ghosts wait for. Where nobody is left who knew the clients of a dead
    broker, the ghost waits for a client that does not exist, until it expires.
    """

    def __init__(
        self,
        life: BrokerLife,
        links: dict[str, Link],
        outbound: Outbound,
        sessions: ClientSessions,
        disk: DiskLog | None,
        ghosts: Ghosts,
    ) -> None:
        self._life = life
        self._links = links
        self._outbound = outbound
        self._sessions = sessions
        self._disk = disk
        self._ghosts = ghosts
        self._mine: dict[str, None] = {}
        """As the neighbours were told."""
        self._unheard: dict[str, set[str]] = {}
        """Clients here, and the neighbours that have not said that they know of them."""
        self.answers: list[str] = []
        """Neighbours that have said so, or are gone, in this step."""

    # -- here ----------------------------------------------------------------------------------------------------------

    def came(self, name: str) -> None:
        """A client is about to have its first subscription here."""
        if self._sessions.all[name].is_internal:
            return
        if name not in self._mine and self._links:
            self._unheard[name] = set(self._links)
        if name in self._unheard:
            self._sessions.all[name].announced = False
        self._change([name], ())

    def returned(self, name: str) -> None:
        """A client brings subscriptions along, which were confirmed elsewhere."""
        self._change([name], ())

    def check(self, names: Iterable[str]) -> None:
        """Something has become of these clients, or of the ghosts that wait for them."""
        stands = {name: self._stands_for(name) for name in names}
        self._change([n for n, does in stands.items() if does], [n for n, does in stands.items() if not does])

    def _stands_for(self, name: str) -> bool:
        session = self._sessions.all.get(name)
        if session is None or session.is_internal:
            is_here = False
        else:
            is_here = (session.attending or session.is_inner) and bool(session.subscriptions)
        return is_here or self._ghosts.awaits(name)

    def _change(self, came: Iterable[str], went: Iterable[str]) -> None:
        came = [name for name in came if name not in self._mine]
        went = [name for name in went if name in self._mine]
        self._mine.update(dict.fromkeys(came))
        for name in went:
            del self._mine[name]
            self._unheard.pop(name, None)
        if self._disk is not None and (came or went):
            self._disk.listeners(came, went)
        for start in range(0, max(len(came), len(went)), NAMES_TOLD):
            end = start + NAMES_TOLD
            news = ListenersChanged(tuple(came[start:end]), tuple(went[start:end]))
            self._outbound.extend([(name, news) for name in self._links])

    # -- neighbours ----------------------------------------------------------------------------------------------------

    def changed(self, link: Link, message: ListenersChanged) -> None:
        link.listeners.difference_update(message.went)
        link.listeners.update(message.came)
        if message.came:
            self._outbound.append((link.name, ListenersHeard(message.came)))

    def heard(self, link: Link, message: ListenersHeard) -> None:
        for name in message.names:
            if name in self._unheard:
                self._unheard[name].discard(link.name)
                self.answers.append(link.name)

    def settle(self) -> None:
        """At the end of a step with answers: clients that everybody has heard of may be told what is confirmed."""
        self.answers.clear()
        for name in [name for name, waiting in self._unheard.items() if not waiting]:
            del self._unheard[name]
            session = self._sessions.all.get(name)
            if session is not None:
                self._sessions.announced(session, self._life.out)

    def rows(self, dead: str | None = None) -> list[Listener]:
        """Return rows about the clients that listen here, and those that listened at a dead neighbour."""
        of_dead = sorted(self._links[dead].listeners) if dead is not None else ()
        return [*[Listener(name, False) for name in self._mine], *[Listener(name, True) for name in of_dead]]

    def meet(self, neighbour: str, parcel: Parcel) -> None:
        """The first word of a new neighbour."""
        self._links[neighbour].listeners = parcel.listeners
        if self._unheard:
            for waiting in self._unheard.values():
                waiting.add(neighbour)
            self._outbound.append((neighbour, ListenersChanged(tuple(self._unheard), ())))

    def lost(self, name: str) -> set[str]:
        """A neighbour is replaced by others: whom it stood for."""
        for waiting in self._unheard.values():
            waiting.discard(name)
        self.answers.append(name)
        return self._links[name].listeners


class Roll:
    """The latest life of every client that was heard of, so that a name belongs to one session in the whole tree.

    A life that is served for the first time is announced to everybody (`ClientBegan`). Where an earlier life of the
    same name is served, that one is told that it is over, as if the later one had come to the same broker. A client
    that goes to another broker is in the same life, and nothing is announced. New links begin with the rolls of both
    sides.

    Nothing else depends on it: what an earlier life published is delivered like anything else, and its receipts are
    true until the end of its session.

    Two generations: what is met again moves to the young one, and when that is full the old one is forgotten.
    """

    def __init__(
        self,
        life: BrokerLife,
        links: dict[str, Link],
        outbound: Outbound,
        sessions: ClientSessions,
        ghosts: Ghosts,
    ) -> None:
        self._life = life
        self._links = links
        self._outbound = outbound
        self._sessions = sessions
        self._ghosts = ghosts
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def latest(self, name: str) -> int:
        return self._young.get(name) or self._old.get(name, 0)

    def lives(self) -> list[Life]:
        """Everything that is remembered."""
        return [Life(name, incarnation) for name, incarnation in {**self._old, **self._young}.items()]

    def heard(self, link: Link, message: ClientBegan) -> None:
        name, known = message.name, self.latest(message.name)
        if message.incarnation < known:  # whoever says so must not have heard, and may serve it
            self._outbound.append((link.name, ClientBegan(name, known)))
        elif message.incarnation > known:
            self._begin(name, message.incarnation, message, link.name)
            if name in self._sessions.all or self._ghosts.awaits(name):
                self._life.outcomes.append(Superseded((name,)))

    def learn(self, lives: Iterable[Life], source: str | None = None) -> None:
        """From a neighbour, or of a client that is served here. What is new is passed on to all others."""
        begun: list[str] = []
        for life in lives:
            if life.incarnation > self.latest(life.name):
                self._begin(life.name, life.incarnation, ClientBegan(life.name, life.incarnation), source)
                begun.append(life.name)
        if begun:
            self._life.outcomes.append(Superseded(tuple(begun)))

    def _begin(self, name: str, incarnation: int, news: ClientBegan, source: str | None) -> None:
        self._young[name] = incarnation
        if len(self._young) > NAMES_KEPT:
            self._old, self._young = self._young, {}
        self._outbound.extend([(link, news) for link in self._links if link != source])


class Audience:
    def __init__(
        self,
        life: BrokerLife,
        interest: Interest,
    ) -> None:
        self._life = life
        self._interest = interest

    def asked(self, session: ClientSession, message: AskAudience) -> None:
        if not 1 <= len(message.topics) <= TOPICS_MAX:
            raise PeerError(f"{len(message.topics)} topics in one question; 1 to {TOPICS_MAX} are possible")
        self._life.out.append(Send(session.name, AudienceTold(message.id, self.may_exist(message.topics))))

    def may_exist(self, topics: tuple[str, ...]) -> bool:
        """Return whether somebody may listen to one of the topics; True while this broker is not certain."""
        life = self._life
        if not (life.attached and life.is_calm and life.goes_on):
            return True
        plan = self._interest.index.plan_any(topics)
        return plan.conditional or bool(plan.always)
