"""How the log of a topic begins: with the agreement of all who are to hold it, and nobody else's.

The broker with the right to it (`ranges`), its *founder*, asks them all (`FoundTopic`). Who agrees has *pledged*
itself, and agrees to no other log of the topic while the founder can be reached and has not given up. When all have,
the founder stands for its leader, and the log has *begun* where the first ballot was promised. So of two logs that have
a holder in common one never begins. If a founder is refused by one that is pledged elsewhere, the one whose log has the
higher name gives up, and says so (`TopicGivenUp`). A log that has begun is never given up: it ends by a decision of
its holders (`EndTopic`).

Who has pledged itself to a founder that is gone may agree to another log; or all of them find a leader among them.
"""

from typing import Final, Protocol

from resprout.replicas.messages import Known
from resprout.stacks.peers import Peer
from resprout_lab.scribe.held import HeldTopic
from resprout_lab.scribe.messages import FoundTopic, TopicGivenUp, TopicKnown, holder_of, name_of
from resprout_lab.scribe.ring import RingSessions

TOPICS_MAX: Final = 1_000_000
"""That one broker holds or owns: a bound on memory against topics that somebody makes up. No more are founded, and
those who ask for one are told that nobody leads it."""


class HoldsTopics(Protocol):
    """The topics of a broker, as their founding knows them."""

    @property
    def me(self) -> str: ...
    @property
    def held(self) -> dict[str, HeldTopic]: ...
    @property
    def hints(self) -> dict[str, TopicKnown]:
        """Topics that others hold."""

    def owns(self, topic: str) -> bool: ...
    def may_found(self, topic: str) -> bool:
        """Nobody else may, as far as can be known."""

    def hold(self, topic: str, group: str, founders: tuple[str, ...], stands: bool, is_begun: bool = False) -> None:
        """From now on, in place of what was held or known of it. `stands`: nobody leads it yet."""

    def drop(self, topic: str) -> None:
        """What was held of it has never begun."""

    def tell_ended(self, name: str, group: str) -> bool:
        """Tell this broker that the log has ended, if that is known here."""

    def hint(self, message: TopicKnown) -> None:
        """Others hold it."""


class _Founding:
    __slots__ = ("agreed", "group", "holders")

    def __init__(self, group: str, holders: tuple[str, ...], me: str) -> None:
        self.group = group
        self.holders = holders
        self.agreed = {me: None}


class TopicFounding:
    def __init__(self, sessions: RingSessions, backups: int, topics: HoldsTopics) -> None:
        self._sessions = sessions
        self._backups = backups
        self._topics = topics
        self._me = topics.me
        self._founding: dict[str, _Founding] = {}
        self._wished: dict[str, None] = {}
        """Topics that are to be founded as soon as this broker has the right, and it is known who will hold them."""
        self._founded = 0

    @property
    def known(self) -> list[TopicKnown]:
        """Of topics that are being founded here."""
        return [TopicKnown(topic, one.group, one.holders, one.holders) for topic, one in self._founding.items()]

    def found(self, topic: str) -> bool:
        """Begin a topic that is owned here, unless it is under way; False when there are too many."""
        if topic in self._founding:
            return True
        if len(self._topics.held) + len(self._wished) >= TOPICS_MAX:
            return False
        holders = self.desired() if self._topics.may_found(topic) else None
        if holders is None:
            self._wished[topic] = None
            return True
        self._wished.pop(topic, None)
        self._founded += 1
        founding = _Founding(f"{self._me} {self._founded} {topic}", holders, self._me)
        self._founding[topic] = founding
        self._ask(FoundTopic(topic, founding.group, holders))
        self._look_at(topic)
        return True

    def found_wished(self) -> None:
        for topic in list(self._wished):
            if not self._topics.owns(topic):
                del self._wished[topic]
            elif topic not in self._topics.held and topic not in self._topics.hints:
                self.found(topic)

    def desired(self) -> tuple[str, ...] | None:
        """Who is to hold what is owned here; None until there are sessions with all of them."""
        members = self._sessions.ring.successors[: self._backups]
        holders = [self._sessions.holder(member) for member in members]
        for member, holder in zip(members, holders, strict=True):
            if holder is None:
                self._sessions.meet([holder_of(member.name, 0, member.address)])
                self._sessions.open(member.name)
        known = [holder for holder in holders if holder is not None]
        return (self._me, *known) if len(known) == len(members) else None

    def held(self, topic: str) -> None:
        """It is now, or is held elsewhere."""
        self._wished.pop(topic, None)

    def ended(self, name: str) -> None:
        """A session. Whoever was to hold something may have forgotten it."""
        for topic, founding in list(self._founding.items()):
            if any(name_of(holder) == name for holder in founding.holders):
                self._give_up(topic)
                self._wished[topic] = None
        for topic, hint in list(self._topics.hints.items()):
            if not hint.is_begun and name_of(hint.founders[0]) == name:
                del self._topics.hints[topic]
        self.found_wished()

    def look(self) -> None:
        """From time to time: at what does not begin. Whoever has not answered is asked again."""
        topics = self._topics
        for topic, one in self._founding.items():
            self._ask(FoundTopic(topic, one.group, one.holders))
        self.found_wished()
        for held in [held for held in topics.held.values() if not held.is_begun]:
            if held.founders[0] == self._me:
                self._ask(FoundTopic(held.topic, held.group, held.founders))
            elif not self._is_bound(held) and topics.may_found(held.topic):
                topics.drop(held.topic)
                self.found(held.topic)
        for topic, hint in [one for one in topics.hints.items() if not one[1].is_begun and topics.owns(one[0])]:
            if self._sessions.find(name_of(hint.founders[0])) is None or self._sessions.is_life(hint.founders[0]):
                self._sessions.post_holder(hint.founders[0], hint)
            else:
                del topics.hints[topic]

    # -- what is asked, and answered -----------------------------------------------------------------------------------

    def hear_found(self, peer: Peer, message: FoundTopic) -> None:
        if self._me not in message.holders:
            return  # an earlier life of it was meant
        topic, mine = message.topic, self._founding.get(message.topic)
        if mine is not None and mine.group < message.group:
            self._sessions.post(peer.name, TopicKnown(topic, mine.group, mine.holders, mine.holders))
            return
        self._give_up(topic)
        held = self._topics.held.get(topic)
        if held is not None and held.group != message.group and (
            held.is_begun or (self._is_bound(held) and held.founders[0] != message.holders[0])
        ):  # fmt: skip
            self._sessions.post(peer.name, held.known)
            if not held.is_begun and held.founders[0] != self._me:  # it may have given up
                self._sessions.post_holder(held.founders[0], held.known)
            return
        hint = self._topics.hints.get(topic)
        if held is None and hint is not None and hint.is_begun and hint.group != message.group:
            self._sessions.post(peer.name, hint)
            return
        if held is None or held.group != message.group:
            self._topics.hold(topic, message.group, message.holders, stands=False)
        self._sessions.post(peer.name, TopicKnown(topic, message.group, message.holders, message.holders))

    def _is_bound(self, held: HeldTopic) -> bool:
        """By the agreement to a log that has not begun: its founder lives, and may count on it."""
        return held.founders[0] == self._me or self._sessions.is_life(held.founders[0])

    def hear_known(self, peer: Peer, message: TopicKnown) -> None:
        topic, mine = message.topic, self._founding.get(message.topic)
        held = self._topics.held.get(topic)
        if self._topics.tell_ended(peer.name, message.group):
            return
        if mine is not None and mine.group == message.group:
            mine.agreed.update((holder, None) for holder in mine.holders if name_of(holder) == peer.name)
            self._look_at(topic)
        elif held is not None and held.group == message.group:  # whoever says so hears how much is known here
            if held.is_begun and not message.is_begun:
                self._sessions.post(peer.name, held.known)
            self._sessions.post(peer.name, Known(held.group, held.replica.ledger.chosen))
        elif message.founders[0] == self._me and not message.is_begun:  # by one that agreed too late
            self._sessions.post(peer.name, TopicGivenUp(topic, message.group))
        elif self._yields(held, mine, peer, message):
            self._give_up(topic)
            if held is not None:
                self._let_go(held)
            self._sessions.meet(message.holders)
            if self._me in message.holders or self._me in message.founders:
                self._topics.hold(topic, message.group, message.founders, stands=False, is_begun=message.is_begun)
            else:
                self._topics.hint(message)

    def _yields(self, held: HeldTopic | None, mine: _Founding | None, peer: Peer, message: TopicKnown) -> bool:
        """What is known of the topic here gives way to another log of it."""
        if held is not None and held.is_begun:
            return False  # both have begun, which is more than can be mended
        if message.is_begun:
            return True
        if mine is not None:
            return message.group < mine.group
        if held is not None and held.founders[0] == self._me:  # all had agreed; one of them says that it does not now
            return message.group < held.group and any(name_of(holder) == peer.name for holder in held.founders)
        return held is None or not self._is_bound(held)

    def hear_given_up(self, peer: Peer, message: TopicGivenUp) -> None:
        held, hint = self._topics.held.get(message.topic), self._topics.hints.get(message.topic)
        if held is not None and held.group == message.group and name_of(held.founders[0]) == peer.name:
            if held.is_begun:
                self._sessions.post(peer.name, held.known)
            else:
                self._topics.drop(message.topic)
        if hint is not None and hint.group == message.group and name_of(hint.founders[0]) == peer.name:
            del self._topics.hints[message.topic]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _ask(self, message: FoundTopic) -> None:
        for holder in message.holders:
            if holder != self._me:
                self._sessions.post_holder(holder, message)

    def _look_at(self, topic: str) -> None:
        founding = self._founding[topic]
        if all(holder in founding.agreed for holder in founding.holders):
            del self._founding[topic]
            self._topics.hold(topic, founding.group, founding.holders, stands=True)

    def _give_up(self, topic: str) -> None:
        """What is being founded here, if it is: whoever has agreed is told."""
        founding = self._founding.pop(topic, None)
        if founding is not None:
            self._tell_given_up(topic, founding.group, founding.holders)

    def _let_go(self, held: HeldTopic) -> None:
        self._topics.drop(held.topic)
        if held.founders[0] == self._me:
            self._tell_given_up(held.topic, held.group, held.founders)

    def _tell_given_up(self, topic: str, group: str, holders: tuple[str, ...]) -> None:
        for holder in holders:
            if holder != self._me and self._sessions.is_life(holder):
                self._sessions.post_holder(holder, TopicGivenUp(topic, group))
