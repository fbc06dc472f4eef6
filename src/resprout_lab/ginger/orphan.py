"""A broker without a parent looks for one.

It asks whoever leads the repair: the nearest ancestor that lives, or, when the root is dead, the first of its children
in the order that the root published. If the leader has no degree left it asks its siblings, each once; then the leader
again, which must break its degree. When there is nobody to ask it tries again after a pause. A newcomer does the same
with the parent it was given, and then with its contacts.
"""

from resprout.core.contract import CancelTimer, SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.spread.messages import Interested
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks.tree import LinkBegan
from resprout_lab.ginger.core import GingerCore
from resprout_lab.ginger.handover import GingerHandover, lost_message, with_adopted
from resprout_lab.ginger.messages import (
    Attached,
    ClientMessageId,
    Contact,
    LostMessage,
    LostMessageRequest,
    ParentBuffer,
    ParentRequest,
    ParentResponse,
    Placed,
)  # fmt: skip
from resprout_lab.ginger.outcomes import Answered, FollowsRoot, LinksChanged
from resprout_lab.ginger.window import id_of


class ParentAnswerDue(Timer, frozen=True):
    """When to see whether whoever was asked is still there; without a name, when to begin again."""

    peer: str


class Quest:
    """One search."""

    def __init__(self, dead: tuple[str, ...]) -> None:
        self.dead = dead
        """Who left this broker without a parent; nobody for a newcomer."""
        self.leader: str | None = None
        self.asked: str | None = None
        self.declined: dict[str, None] = {}
        self.refused = False
        """The leader has declined: then this broker accepts nobody."""
        self.breaking = False
        self.unreachable: dict[str, None] = {}
        self.place: str | None = None
        """Who has accepted."""
        self.asks: tuple[Interested, ...] = ()
        """What whoever leads is told to be wanted here; what changes meanwhile is said on the new link."""
        self.lost: dict[ClientMessageId, LostMessage] = {}


class Seeker:
    def __init__(self, seat: BrokerSeat, core: GingerCore, handover: GingerHandover) -> None:
        self._seat = seat
        self._core = core
        self._handover = handover
        self.quest: Quest | None = None

    def begin(self, dead: tuple[str, ...]) -> None:
        self.quest = Quest(dead)
        self._seek_leader(self.quest)

    # -- whom to ask ---------------------------------------------------------------------------------------------------

    def _candidates(self, quest: Quest) -> list[str]:
        """Who may lead, nearest first."""
        if quest.dead:
            names = [contact.name for contact in (*self._core.view.line, *self._core.view.succession)]
            avoid = {*quest.unreachable, *quest.dead, *self._core.peers.dead}
        else:
            names = [*([self._seat.parent] if self._seat.parent else []), *self._seat.contacts]
            avoid = {*quest.unreachable}
        return [name for name in dict.fromkeys(names) if name not in avoid]

    def _seek_leader(self, quest: Quest) -> None:
        core = self._core
        quest.leader = quest.asked = quest.place = None
        quest.declined.clear()
        quest.lost.clear()
        quest.refused = False
        quest.breaking = not quest.dead and self._seat.parent is not None  # the tree as it was laid out
        candidates = self._candidates(quest)
        if quest.dead and candidates[:1] == [core.name]:
            self.quest = None
            core.outcomes.append(FollowsRoot(quest.dead))
            return
        quest.leader = next((name for name in candidates if name != core.name), None)
        if quest.leader is not None:
            quest.asks = core.wishes.asks_for(quest.dead[0]) if quest.dead else ()
            self._ask(quest, quest.leader)
        else:
            quest.unreachable.clear()
            core.out.append(SetTimer(ParentAnswerDue(""), core.now_us + core.options.timer_us))

    def _ask_next(self, quest: Quest) -> None:
        """Somebody who has not declined; then the leader, who must accept."""
        assert quest.leader is not None
        avoid = {*quest.declined, *self._core.peers.dead, quest.leader, self._core.name}
        if quest.dead:
            others = [name for dead in quest.dead for name in self._core.view.children_of(dead) if name not in avoid]
        else:
            others = [name for name in self._candidates(quest) if name not in avoid]
            quest.leader = others[0] if others else quest.leader
            quest.breaking = False
        if others:
            self._ask(quest, others[0])
        else:
            quest.breaking = True
            quest.declined.clear()
            self._ask(quest, quest.leader)

    def _ask(self, quest: Quest, name: str) -> None:
        core = self._core
        quest.asked = name
        core.peers.open(name)
        if quest.dead:
            core.note("repair_round", quest.dead[0])
        core.out.append(SetTimer(ParentAnswerDue(name), core.now_us + core.options.timer_us))
        if core.peers.is_up(name):
            self.session_began(name)

    def session_began(self, name: str) -> None:
        quest = self.quest
        if quest is not None and quest.asked == name:
            lives = tuple(self._core.peers.dead.get(dead, 0) for dead in quest.dead)
            request = ParentRequest(quest.dead, lives, quest.breaking, self._seat.address, quest.asks)
            self._core.outbox.send(name, request)

    # -- who is not there ----------------------------------------------------------------------------------------------

    def concerns(self, name: str) -> bool:
        return self.quest is not None and name in (self.quest.leader, self.quest.asked, self.quest.place)

    def give_up_on(self, name: str) -> None:
        quest = self.quest
        if quest is None or not self.concerns(name):
            return
        quest.unreachable[name] = None
        if name == quest.leader:
            if quest.dead and name in self._core.peers.dead:
                quest.dead = (*quest.dead, name)  # whoever is asked next shall know
            self._close_if_strange(name)
            self._seek_leader(quest)
        else:
            quest.declined[name] = None
            quest.place = None
            self._ask_next(quest)

    def _close_if_strange(self, name: str) -> None:
        if name not in self._core.links:
            self._core.peers.close(name, "no neighbour in the tree")

    def answer_due(self, timer: ParentAnswerDue) -> None:
        core = self._core
        if self.quest is None:
            return
        if not timer.peer:
            self._seek_leader(self.quest)
        elif core.peers.is_silent(timer.peer):
            self.give_up_on(timer.peer)
        elif self.concerns(timer.peer):  # it lives, and has its reasons
            core.out.append(SetTimer(timer, core.now_us + core.options.timer_us))

    # -- answers -------------------------------------------------------------------------------------------------------

    def hear_response(self, name: str, message: ParentResponse) -> None:
        quest = self.quest
        if quest is None or quest.asked != name or quest.place is not None:
            return
        core = self._core
        core.outcomes.append(Answered())
        if message.accepted:
            quest.place = name
            if name != quest.leader and quest.leader is not None:
                core.outbox.send(quest.leader, Placed(name))
        else:
            quest.declined[name] = None
            quest.refused |= name == quest.leader
            self._ask_next(quest)

    def hear_buffer(self, name: str, message: ParentBuffer) -> None:
        """Send what the leader lacks, and say what there is here."""
        quest = self.quest
        if quest is None or quest.leader != name or not quest.dead:
            return
        core = self._core
        there = set(message.buffered)
        crossed = self._handover.crossed(quest.dead)
        for entry in crossed:
            if entry.id not in there:
                core.outbox.send(name, lost_message(entry))
        ids = tuple(entry.id for entry in crossed)
        core.outbox.send(name, LostMessageRequest(ids, self._handover.cut()))

    def hear_lost(self, name: str, message: LostMessage) -> None:
        if self.quest is not None and self.quest.leader == name:
            self.quest.lost[id_of(message.bundle)] = message

    def hear_attached(self, name: str, message: Attached) -> None:
        quest = self.quest
        if quest is None or quest.leader != name:
            raise PeerError(f"{name} does not lead a repair here")
        core, handover = self._core, self._handover
        self.quest = None
        for asked in dict.fromkeys((quest.leader, quest.asked or "", "")):
            core.out.append(CancelTimer(ParentAnswerDue(asked)))
        core.epoch = message.cut.epoch
        adopted = [child.name for child in message.adopted]
        dead = dict.fromkeys((*quest.dead, *message.dead))
        entries = handover.take_over(message.pool, quest.lost, dead, message.parent, adopted)
        asks = with_adopted(quest.asks, message.adopted)
        handover.begin_link(message.parent, True, message.wants, asks, entries)
        for child in message.adopted:
            core.view.locate(Contact(child.name, child.address))
            handover.begin_link(child.name, False, child.wants, child.asks, entries)
        handover.have_seen(message.cut)
        handover.pass_on_what_waited(dead, [message.parent, *adopted])
        handover.replaced(dead)
        handover.lock(message.cut.pending)
        if quest.dead:
            core.view.led_by(name, quest.dead)
            core.note("repair_end", quest.dead[0])
        self._close_if_strange(name)
        core.outcomes.append(LinksChanged())
        core.outcomes.extend(LinkBegan(other) for other in (message.parent, *adopted))
