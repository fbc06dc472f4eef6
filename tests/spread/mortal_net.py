"""A net whose brokers may die: their neighbours hand over what they wanted and asked, as the default stack does it.

The broker above the dead one takes its place. Each broker below *attaches*: it tells what stood on its dead link, and
from then on keeps what it would have said there. The one above makes links of it and *grants* each of them what is
asked on it. What the clients of the dead broker wanted is wanted by a ghost for a while.
"""

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from resprout.core.contract import ProtocolMessage
from resprout.filters.predicate import Predicate
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout.spread.says import Says
from tests.spread.net import UNIVERSE, Net, matched

Ask = tuple[int, Predicate, bool]


class Granted(ProtocolMessage, frozen=True, tag=200):
    """First message of the link that replaces a dead one."""

    dead: str
    asks: tuple[tuple[int, object, bool], ...]


class Attached(msgspec.Struct):
    """What a member has handed over."""

    asks: list[Ask]
    served: list[Predicate]


class MortalNet(Net):
    def __init__(self, parents: Mapping[str, str | None], homes: Mapping[str, str]) -> None:
        self.parents = dict(parents)
        self.dying: dict[str, dict[str, Attached]] = {}
        """Dead brokers that are not replaced yet -> their members."""
        self.waiting: dict[str, str] = {}
        """Members that have attached and not yet been granted -> their dead parent."""
        self._unsaid: dict[str, list[ProtocolMessage]] = {}
        """By member: what it has kept back until its Grant comes."""
        self.ghosts: list[tuple[str, str]] = []
        """(broker, ghost)."""
        super().__init__(parents, homes)

    @property
    def calm(self) -> bool:
        return not self.dying and not self.waiting

    def die(self, name: str) -> None:
        """It is gone with its clients, and what was on its way to it or from it."""
        above = self.parents[name]
        assert above is not None, "the root of this net does not die"
        del self.brokers[name]
        for claim in [claim for claim in self.wanted if self.homes[claim[0]] == name]:
            del self.wanted[claim]
            self.confirmed.pop(claim, None)
        self.advertised = {pair: None for pair in self.advertised if self.homes[pair[0]] != name}
        self.homes = {client: home for client, home in self.homes.items() if home != name}
        members = [child for child, parent in self.parents.items() if parent == name]
        for other in (*members, above):
            self.queues[name, other].clear()
            self.queues[other, name].clear()
            self.asleep |= {(name, other), (other, name)}
        self.dying[name] = {}
        for member in members:
            asks, served = self.brokers[member].interest.standing(name)
            self.dying[name][member] = Attached(asks, served)
            self.waiting[member] = name
            self._unsaid[member] = []

    def repair(self, name: str) -> None:
        """The coordinator replaces the dead broker by links of its own."""
        centre = self.parents[name]
        assert centre is not None
        members = self.dying.pop(name)
        interest, says = self.brokers[centre].interest, Says()
        ghost = f"~{name}"
        self.ghosts.append((centre, ghost))
        for predicate in interest.index.predicates_of(name):
            self._note(interest.want(ghost, predicate, says, confirmed=True))
        for member in members:
            interest.add_neighbour(member)
        self._note(interest.remove_neighbour(name, says))  # only now: who waited for the dead waits for these instead
        for member, attached in members.items():
            self._note(interest.reconcile(member, attached.asks, says))
        asked = {member: interest.standing(member)[0] for member in members}
        for member, attached in members.items():
            self._note(interest.presume(member, attached.served, {}, says))
        self._rewire(name, centre, members)
        for member in members:
            sure = {id: confirmed for id, _, confirmed in interest.standing(member)[0]}
            asks = tuple([(id, predicate, sure[id]) for id, predicate, _ in asked[member]])
            self.queues[centre, member].append(Granted(name, asks))
        asking = (Interested, Uninterested)  # what is asked stands in the Grant
        self._say(centre, [(to, word) for to, word in says if to not in members or not isinstance(word, asking)])
        self._advertise_anew(centre, name, members)

    def _rewire(self, dead: str, centre: str, members: Mapping[str, Attached]) -> None:
        self.links = [link for link in self.links if dead not in link]
        for other in (*members, centre):
            del self.queues[dead, other], self.queues[other, dead]
            self.asleep -= {(dead, other), (other, dead)}
        del self.parents[dead]
        for member in members:
            self.parents[member] = centre
            self.links.append((member, centre))
            self.queues[member, centre] = deque()
            self.queues[centre, member] = deque()
        self._toward = {name: self._hops_toward(name) for name in self.parents}

    def _advertise_anew(self, name: str, dead: str, new: Iterable[str]) -> None:
        adverts, says = self.brokers[name].adverts, Says()
        adverts.remove_neighbour(dead, says)
        for other in new:
            adverts.add_neighbour(other)
            says += adverts.told(other)
        self._say(name, says)

    def end_ghosts(self) -> None:
        for broker, ghost in self.ghosts:
            if broker in self.brokers:
                says: Says = []
                self._note(self.brokers[broker].interest.drop_all(ghost, says))
                self._say(broker, says)
        self.ghosts.clear()

    def _arrive(self, sender: str, receiver: str, message: ProtocolMessage) -> None:
        if not isinstance(message, Granted):
            super()._arrive(sender, receiver, message)
            return
        interest, says = self.brokers[receiver].interest, Says()
        interest.replace_neighbour(message.dead, sender)
        asks: list[Ask] = [(id, p, sure) for id, p, sure in message.asks if isinstance(p, Predicate)]
        self._note(interest.reconcile(sender, asks, says))
        del self.waiting[receiver]
        self._say(receiver, [(sender, word) for word in self._unsaid.pop(receiver)])
        self._say(receiver, says)
        self._advertise_anew(receiver, message.dead, (sender,))

    def _say(self, name: str, says: Says) -> None:
        dead = self.waiting.get(name)
        for neighbour, message in says:
            if neighbour == dead:
                if not isinstance(message, InterestConfirmed):  # it answers a number that only the dead had given
                    self._unsaid[name].append(message)
            elif (name, neighbour) in self.queues and (name, neighbour) not in self.asleep:
                self.queues[name, neighbour].append(message)

    def check_no_gap(self) -> None:
        """As before, but a broker whose link is in repair keeps everything for whoever replaces it."""
        for client, predicate in self.confirmed:
            bits = matched(predicate)
            for broker, hop in self._toward[self.homes[client]].items():
                if broker not in self.brokers or hop not in self.brokers or self.waiting.get(broker) is not None:
                    continue
                recorded = 0
                for sent in self.brokers[broker].interest.index.predicates_of(hop):
                    recorded |= matched(sent)
                missing = bits & ~recorded
                assert not missing, (client, predicate, broker, hop, UNIVERSE[missing.bit_length() - 1])
