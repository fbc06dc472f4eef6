"""The tree repairs itself: who is dead, who is asked to be a parent, and who joins.

When a broker dies, its parent *leads* the repair (`leader`): it waits for the dead one's children, as its view names
them. When the root dies its children follow in the order that it published, and the first one alive leads. The others
are *orphans* (`orphan`): each asks the leader to be its parent, and if need be its siblings. Only a broker that the
leader itself has accepted accepts a sibling, so no cycle can come about.

Leader and orphans then find out what was lost. The leader says what it has of what crossed the dead one and is not
stable (`ParentBuffer`); an orphan sends what is missing there, says what it has itself and what it has seen
(`LostMessageRequest`). When the leader has heard all orphans and knows their places, it orders everything causally,
takes in what it lacks, and tells each orphan the same (`Attached`): one cut for all, from which the new links continue.
Until then whatever would pass the dead broker waits; the rest goes on.
"""

from resprout.core.contract import Retire
from resprout.stacks.shell.desk import Handler
from resprout.stacks.shell.shell import Table
from resprout.stacks.stack import BrokerSeat
from resprout_lab.ginger.clients import GingerClients
from resprout_lab.ginger.core import GingerCore
from resprout_lab.ginger.handover import GingerHandover, OrphansDue
from resprout_lab.ginger.intake import Intake
from resprout_lab.ginger.leader import Leader
from resprout_lab.ginger.messages import (
    Attached,
    Contact,
    LostMessage,
    LostMessageRequest,
    NodeGone,
    ParentBuffer,
    ParentRequest,
    ParentResponse,
    Placed,
)  # fmt: skip
from resprout_lab.ginger.orphan import ParentAnswerDue, Quest, Seeker
from resprout_lab.ginger.outcomes import Answered, FollowsRoot, LinksChanged
from resprout_lab.ginger.totals import GingerTotals
from resprout_lab.ginger.window import GingerLink


class Tree:
    def __init__(
        self, seat: BrokerSeat, core: GingerCore, totals: GingerTotals, clients: GingerClients, intake: Intake
    ) -> None:
        self._seat = seat
        self._core = core
        self._view = core.view
        self._peers = core.peers
        self._totals = totals
        self._intake = intake
        self._handover = GingerHandover(core, totals, clients)
        self.seeker = Seeker(seat, core, self._handover)
        self.leader = Leader(core, clients, self._handover, self.seeker)
        self._later: dict[str, ParentRequest] = {}
        """Requests that cannot be answered now."""
        leader, seeker = self.leader, self.seeker
        self.handlers: dict[type, Handler] = {
            ParentRequest: lambda peer, message: self.hear_request(peer.name, message),
            ParentResponse: lambda peer, message: seeker.hear_response(peer.name, message),
            ParentBuffer: lambda peer, message: seeker.hear_buffer(peer.name, message),
            LostMessage: lambda peer, message: self._hear_lost(peer.name, message),
            LostMessageRequest: lambda peer, message: leader.hear_lost_request(peer.name, message),
            Placed: lambda peer, message: leader.hear_placed(peer.name, message),
            Attached: lambda peer, message: seeker.hear_attached(peer.name, message),
            NodeGone: lambda peer, message: self._hear_gone(peer.name, message),
        }
        """What any broker may say."""
        self.timers: Table = {ParentAnswerDue: seeker.answer_due, OrphansDue: leader.orphans_due}
        self.outcomes: Table = {
            LinksChanged: lambda outcome: self.settle(),
            Answered: lambda outcome: self.reconsider(),
            FollowsRoot: self._follow_root,
        }

    @property
    def is_settled(self) -> bool:
        """In the tree, and nothing under repair here."""
        core = self._core
        return self.seeker.quest is None and not self.leader.repairs and (core.is_root or core.parent is not None)

    def start(self) -> None:
        if self._seat.parent is None and not self._seat.contacts:
            self._core.is_root = True
            self._core.epoch = 1
        else:
            self.seeker.begin(())

    # -- who is dead ---------------------------------------------------------------------------------------------------

    def declare(self, name: str) -> None:
        """From now on it counts as dead; should it live, it is told so."""
        core = self._core
        if name in self._peers.dead or name == core.name:
            return
        self._peers.declare(name)
        self._later.pop(name, None)
        self._view.newcomers.pop(name, None)
        if name in core.links:
            core.note("suspect", name)
            self._lose_neighbour(core.links[name])
        self.leader.lose(name)
        self.seeker.give_up_on(name)

    def _lose_neighbour(self, link: GingerLink) -> None:
        core = self._core
        core.broken[link.name] = None
        self._intake.release(link)  # what it sent counts, and no lock may hold what must be handed on
        self._totals.forget_acks(link.name)
        if link.is_parent:
            core.note("repair_begin", link.name)
            self.seeker.begin((link.name,))
        else:
            self.leader.lead((link.name,), self._view.children_of(link.name))

    def refused(self, name: str) -> None:
        """Nobody listens there any more."""
        quest = self.seeker.quest
        if name in self._core.links or self.leader.expected(name):
            self.declare(name)
        elif quest is not None and self.seeker.concerns(name):
            if quest.dead:
                self.declare(name)
            else:
                self.seeker.give_up_on(name)

    def _hear_gone(self, name: str, message: NodeGone) -> None:
        if message.incarnation == self._seat.incarnation:
            self._core.end_life(Retire(f"declared dead by {name}"))

    def _follow_root(self, outcome: FollowsRoot) -> None:
        siblings = [contact.name for contact in self._view.succession]
        orphans = [*siblings, *(name for dead in outcome.dead for name in self._view.children_of(dead))]
        self.leader.lead(outcome.dead, orphans)
        self.reconsider()

    # -- asked to be a parent ------------------------------------------------------------------------------------------

    def hear_request(self, name: str, message: ParentRequest) -> None:
        core = self._core
        self._view.locate(Contact(name, message.address))
        for dead, life in zip(message.dead, message.lives, strict=False):
            if dead == core.name:
                if life == self._seat.incarnation:
                    core.end_life(Retire(f"declared dead by {name}"))
                return
            if self._peers.lives.get(dead, 0) <= life:
                self.declare(dead)
        if not message.dead:
            self._let_in(name, message)
        elif (quest := self.seeker.quest) is not None:
            self._accept_sibling(quest, name, message)
        elif any(isinstance(outcome, FollowsRoot) for outcome in core.outcomes):
            self._later[name] = message  # this message told of the death: the repair, with all orphans, begins after it
        else:
            self.leader.accept(name, message)

    def _accept_sibling(self, quest: Quest, name: str, message: ParentRequest) -> None:
        """Only when the leader itself has accepted this broker: then neither is below the other."""
        undecided = quest.place is None and not quest.refused
        if undecided or not set(message.dead) & set(quest.dead):
            self._later[name] = message
        else:
            self.leader.respond(name, quest.place == quest.leader and self._view.degree_left > 1)

    def _let_in(self, name: str, message: ParentRequest) -> None:
        """A newcomer: nothing is owed to it, but everybody must know of it first."""
        core = self._core
        self.leader.lose(name)
        if name in core.links and name not in core.broken:
            self.declare(name)  # the life that it had before
        self._peers.dead.pop(name, None)
        if self.seeker.quest is not None and not message.break_degree:
            self.leader.respond(name, False)
        elif not self.is_settled or name in core.links:
            self._later[name] = message
        elif self._view.degree_left > 0 or message.break_degree:
            self._view.announce(name)
        else:
            self.leader.respond(name, False)

    def admit(self) -> None:
        """Newcomers whom everybody knows."""
        if not self.is_settled:
            return
        core = self._core
        admitted = self._view.admitted()
        unsafe = [entry for entry in core.held_back if not entry.safe]
        for name in admitted:
            del self._view.newcomers[name]
            if self._peers.is_up(name):
                asks = core.wishes.asks_for(name)
                core.outbox.send(name, ParentResponse(True))
                core.outbox.send(name, Attached(core.name, (), (), self._handover.cut(unsafe), asks))
                self._handover.begin_link(name, False, (), asks, ())
                for entry in unsafe:  # nobody else may have it, and the newcomer must not count it as seen
                    core.pass_on(core.links[name], entry, True)
        if admitted:
            self.settle()

    def _hear_lost(self, name: str, message: LostMessage) -> None:
        self.seeker.hear_lost(name, message)
        self.leader.hear_lost(name, message)

    def reconsider(self) -> None:
        """Something changed: answer what could not be answered."""
        later, self._later = self._later, {}
        for name, message in later.items():
            self.hear_request(name, message)

    def settle(self) -> None:
        """After the links changed."""
        self._totals.links_changed()
        self._view.refresh()
        self.leader.finish()
        self.reconsider()
