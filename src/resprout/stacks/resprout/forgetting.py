"""Brokers that never return, as the operator says: a part that is cut off for good, a silent host in a tree too small
for a majority. Nothing in the network can know that, so it waits for them until somebody says it.

Every client may say it, unless rules say who operates. A broker that lives after all, somewhere else, is fenced as
soon as it is heard again, and joins as a new leaf. One that is heard here is forgotten only by `force`: a mistake of
names must not cost a broker its place.

Not done here: declaring anybody dead (`overlay.council`), and telling whether it worked, which shows in the tree.
"""

from resprout.core.contract import Send
from resprout.core.errors import UsageError
from resprout.edge.broker.session import ClientSession
from resprout.edge.client.questions import check_names
from resprout.edge.messages import BrokersForgotten, ForgetBrokers
from resprout.overlay.council import Council
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.words import listed
from resprout.stacks.shell.peers import Peers


class Forgetting:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        council: Council,
    ) -> None:
        self._life = life
        self._peers = peers
        self._council = council

    def asked(self, session: ClientSession, message: ForgetBrokers) -> None:
        life = self._life
        reason = self._refusal(message.names, message.force)
        life.out.append(Send(session.name, BrokersForgotten(message.names, reason)))
        if not reason:
            force = ", by force" if message.force else ""
            life.note("forget", f"{listed(message.names)}, as {session.name} says{force}")
            self._council.forget(message.names, life.now_us)

    def _refusal(self, names: tuple[str, ...], force: bool) -> str:
        """Why this is not done; empty when it is. All of it, or nothing."""
        here = self._life.seat.name
        try:
            check_names(names)
        except UsageError as error:
            return str(error)
        if not self._life.attached:
            return f"{here} has no place in the tree itself: ask another broker"
        if here in names:
            return f"{here} cannot forget itself: stop it, or ask another broker"
        if unknown := [name for name in names if not self._is_known(name)]:
            advice = "ask a broker next to it" if force else "leave it out"
            return f"{listed(unknown)}: not known to {here}, which waits for no such broker: {advice}"
        if not force and (alive := [name for name in names if self._is_alive(name)]):
            are, them = ("is", "it") if len(alive) == 1 else ("are", "them")
            return f"{listed(alive)} {are} alive here: stop {them} first, or forget {them} by force"
        return ""

    def _is_known(self, name: str) -> bool:
        """What was replaced before counts: to say it twice is no mistake."""
        here = self._life.view
        return (
            name in here.places
            or name in here.neighbours
            or name in here.tombstones
            or name in here.configuration.names
        )

    def _is_alive(self, name: str) -> bool:
        """The life that stands in the tree is heard, and nobody has declared it dead."""
        life = self._life
        if not self._peers.is_heard(name) or life.view.is_dead(name) or self._council.has_ended(name):
            return False
        return self._peers.incarnation(name) == life.view.incarnation_of(name)
