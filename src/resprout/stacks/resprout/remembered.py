"""The network that this broker remembers: what an earlier life left on disk, and what the next one is to know.

The next process looks for these brokers before it founds anything. What this one has agreed to may be needed when all
brokers have stopped: then the next lives of enough voters go on as the same network (`joining/reunion`).
"""

from collections.abc import Iterable, Mapping

from resprout.core.contract import Remember
from resprout.order.link import Link
from resprout.overlay.configurations import LIVES_KEPT, OTHERS_KEPT, Configurations, MembershipMemory, decode, encode
from resprout.overlay.messages import Life
from resprout.stacks.peers import Peers
from resprout.stacks.resprout.joining.claims import Claims
from resprout.stacks.resprout.life import BrokerLife


class RememberedBrokers:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        links: Mapping[str, Link],
        claims: Claims,
        configurations: Configurations,
    ) -> None:
        self._life = life
        self._peers = peers
        self._links = links
        self._claims = claims
        self._configurations = configurations
        self.memory = decode(life.seat.memory) if life.seat.memory else None
        """What an earlier life has left about its network."""
        self.sought: dict[str, None] = {}
        """Brokers that may know that network, while this one looks for it."""
        self._written: Remember | None = None

    def knows(self, name: str) -> bool:
        """Whether a broker has or had this name, as far as this one knows. No client may have it."""
        view = self._life.view
        if name in self._links or name in view.places or name in view.tombstones:
            return True
        if name == view.name or name in self.sought or self._peers.get(name) is not None:
            return True
        remembered = self.memory.others if self.memory is not None else ()
        return any(name == voter.name for voter in view.decided.voters) or any(name == life.name for life in remembered)

    def write(self) -> None:
        """Write who else is in the network, newcomers that are being taken in included, and what this broker has agreed
        to, if that has changed. So no later process of this broker forgets that it is not alone."""
        life, view = self._life, self._life.view
        if not life.attached and self.memory is None:
            return
        known = [
            Life(name, place.incarnation)
            for name, place in view.places.items()
            if name != view.name and not view.is_dead(name)
        ]
        if life.attached:
            names = tuple(dict.fromkeys([*[one.name for one in known], *self._claims.admitted]))
        else:
            names = tuple(self.sought)
        memory = self._as_of_now(known[:OTHERS_KEPT])
        written = Remember(memory.network, names, encode(memory), life.attached)
        if written != self._written:
            self._written = written
            life.records.append(written)

    def _as_of_now(self, known: Iterable[Life]) -> MembershipMemory:
        view, before, configurations = self._life.view, self.memory, self._configurations
        if not self._life.attached and before is not None:
            network, epoch, others = before.network, before.epoch, before.others
        else:
            network, epoch, others = view.network, view.epoch, tuple(known)
        return MembershipMemory(
            network,
            view.own_lives[-LIVES_KEPT:],
            epoch,
            view.decided,
            configurations.agreed,
            others,
            configurations.proposed,
            self._life.declared_logs,
        )
