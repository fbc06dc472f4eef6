"""Chord: members on a ring of numbers, each of which owns the keys up to its own number.

Stoica and others, "Chord: a scalable peer-to-peer lookup service" (2001), as the second phase of seed 004 has it, with
the rules that Zave showed to be needed ("How to make Chord correct", 2015) and the correction S3 of the seed.

*The ring.* A member's number is the SHA-256 of its address. Its *successors* are the next few members behind it; the
first successors form the ring. Its *predecessor* is the member before it. A key belongs to the first member at or
behind it.

*Joining.* A new member looks up its own number through a contact, asks the member that it finds for its successors, and
is a member once it has a whole list; in the original a single successor is enough.

*Stabilising.* Now and then a member asks its first successor who precedes and who follows it, and takes over the list.
If a member stands between, it is asked too, and becomes the first successor only when it has answered: it may be dead.
The question tells its receiver of a member before it.

*Failing.* A member that cannot be reached is removed from all lists; the next successor takes over. This works while
one of each member's successors lives: with r of them, fewer than r neighbours on the ring may fail before it is
stabilised again. A ring has more than r members, or all of them in every list.

*Lookups.* A question goes on to the closest member before its key that is known here, a finger or a successor, never to
the member itself (S3). The member that finds the key between itself and its first successor answers. Finger i is the
owner of the number 2^i behind the member (S3: not of i), so each step halves the distance. A member without a
predecessor, which is not an error (S3), owns no key.

*Departures.* The question of a stabilising member also notifies: one message for two. A member that gets a nearer
predecessor tells the one before, so that many that join in one place are soon in order. A finger that fails is removed
and looked up again in its turn.

The module is pure. Its input is messages of other members, and which of them cannot be reached (`unreachable`); its
output goes to its owner (`Wires`). Tags 284 to 287 of the wire belong to this file.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout.core.errors import PeerError
from resprout_lab.blocks.mesh import OverlayMember, Wires
from resprout_lab.scribe.options import SUCCESSORS_SAID_MAX, RingOptions
from resprout_lab.scribe.ring_numbers import (
    SIZE,
    Fingers,
    distance,
    from_key,
    is_between,
    is_owned,
    member_number,
    to_key,
)

HOPS_MAX: Final = 128
"""Of a question; one that has come so far goes in circles, and is asked again."""
LOOKUPS_MAX: Final = 10_000
"""Questions of one member that are not answered yet. One more is not asked, and its owner told."""
EARLY_MAX: Final = 256
"""Questions that wait at a member-to-be; who asked asks again."""

LOST_MAX: Final = 16
"""Members that could not be reached any more and are called again, those that were lost last."""
CALLED_AGAIN: Final = 4
"""One of them each time that so many times it was stabilised, ..."""
CALLS_MAX: Final = 30
"""... and each so often. Who has not answered then is dead."""


class FindOwner(ProtocolMessage, frozen=True, tag=284):
    """Whose is this key? On its way to whoever can tell the one that asks."""

    key: bytes
    origin: OverlayMember
    number: int
    """By which the origin knows the answer."""
    hops: int
    routine: bool
    """Asked now and then, whatever happens: nobody waits for it."""

    @property
    def background(self) -> bool:
        return self.routine


class OwnerFound(ProtocolMessage, frozen=True, tag=285):
    number: int
    owner: OverlayMember
    hops: int
    routine: bool

    @property
    def background(self) -> bool:
        return self.routine


class AskSuccessor(ProtocolMessage, frozen=True, tag=286):
    """Who precedes you, and who follows? I am before you on the ring, or will be (`joins`)."""

    address: str
    joins: bool

    @property
    def background(self) -> bool:
        return not self.joins


class SuccessorSays(ProtocolMessage, frozen=True, tag=287):
    predecessor: OverlayMember | None
    successors: tuple[OverlayMember, ...]
    address: str
    joins: bool

    @property
    def background(self) -> bool:
        return not self.joins

    def check(self) -> None:
        """PeerError for what no honest member says."""
        if len(self.successors) > SUCCESSORS_SAID_MAX:
            raise PeerError(f"{len(self.successors)} successors in one message; at most {SUCCESSORS_SAID_MAX}")


CHORD_MESSAGES: Final = (FindOwner, OwnerFound, AskSuccessor, SuccessorSays)


class RingJoined(Outcome, frozen=True):
    """This member is on the ring."""


class RingMoved(Outcome, frozen=True):
    """The predecessor or the first successor is another one: so may be the owners of keys."""


class KeyFound(Outcome, frozen=True):
    key: bytes
    owner: OverlayMember
    hops: int


class KeyNotFound(Outcome, frozen=True):
    """Nobody has answered."""

    key: bytes


class StabiliseDue(Timer, frozen=True):
    """When to ask the first successor who stands between, and to look up a finger."""

    @property
    def background(self) -> bool:
        return True


class OwnerOverdue(Timer, frozen=True):
    """When to ask again for the owner of a key."""

    number: int
    routine: bool

    @property
    def background(self) -> bool:
        return self.routine


class _Lookup:
    __slots__ = ("finger", "joins", "key", "lost", "tries")

    def __init__(self, key: bytes, finger: int | None, joins: bool, lost: str | None = None) -> None:
        self.key = key
        self.finger = finger
        """That it is for, if any."""
        self.joins = joins
        self.lost = lost
        """Somebody who was lost and is asked who follows this member, on the ring that it is on."""
        self.tries = 0

    @property
    def routine(self) -> bool:
        return self.finger is not None or self.lost is not None


class Chord:
    def __init__(self, me: OverlayMember, contacts: Sequence[str], options: RingOptions, wires: Wires) -> None:
        """`contacts`: members to join by, asked in turn. Without any, this is the first."""
        self.me = me
        self.number = member_number(me)
        self._contacts = [OverlayMember(name) for name in contacts if name != me.name]
        self._options = options
        self._wires = wires
        self.is_member = not self._contacts
        self.predecessor: OverlayMember | None = None
        self.successors: list[OverlayMember] = []
        """The next ones on the ring, nearest first; none of a ring that has no others."""
        self.fingers = Fingers(self.number)
        self._lookups: dict[int, _Lookup] = {}
        self._numbers = 0
        self._early: deque[FindOwner] = deque(maxlen=EARLY_MAX)
        """Questions of those who would join by this one, which has to join first."""
        self._joining_at: OverlayMember | None = None
        """The member before which this one will stand."""
        self.lost: dict[str, OverlayMember] = {}
        """By name: those that could not be reached. After a partition they are on another ring."""
        self._calls: dict[str, int] = {}
        """How often each of them was called."""
        self._rounds = 0
        self._between: str | None = None
        """A member that is said to stand before the first successor, and was asked."""
        self.handlers: dict[type, Callable[[str, Any], None]] = {
            FindOwner: self._find,
            OwnerFound: self._found,
            AskSuccessor: self._asked,
            SuccessorSays: self._told,
        }

    def begin(self) -> None:
        self._wires.wake(StabiliseDue(), self._options.stabilise_us)
        if self.is_member:
            self._wires.tell(RingJoined())
        else:
            self._look_up(to_key(self.number), joins=True)

    @property
    def is_outnumbered(self) -> bool:
        """As many were lost, not long ago, as are left: it may be this member that was cut off from the ring."""
        beside = [self.predecessor] if self.predecessor is not None else []
        left = {self.me.name, *(member.name for member in (*beside, *self.successors, *self.fingers))}
        return bool(self.lost) and len(self.lost.keys() - left) >= len(left)

    def hear(self, name: str, message: Any) -> None:
        """PeerError for what no member says."""
        self.handlers[type(message)](name, message)

    # -- keys ----------------------------------------------------------------------------------------------------------

    def owns(self, number: int) -> bool:
        """As far as this member knows. Without a predecessor, only one that is alone owns anything."""
        if self.predecessor is None:
            return self.is_member and not self.successors
        return is_owned(member_number(self.predecessor), number, self.number)

    def look_up(self, key: bytes) -> None:
        """`KeyFound` or `KeyNotFound` will tell."""
        from_key(key)
        if not self.is_member or len(self._lookups) >= LOOKUPS_MAX:
            self._wires.tell(KeyNotFound(key))
        else:
            self._look_up(key)

    def _look_up(self, key: bytes, finger: int | None = None, joins: bool = False) -> None:
        self._numbers += 1
        self._lookups[self._numbers] = _Lookup(key, finger, joins)
        self._try(self._numbers)

    def _try(self, number: int) -> None:
        lookup = self._lookups[number]
        lookup.tries += 1
        timer = OwnerOverdue(number, lookup.routine)
        if lookup.joins:
            contact = self._contacts[(lookup.tries - 1) % len(self._contacts)]
            self._wires.wake(timer, self._options.lookup_us)
            self._wires.say(contact, FindOwner(lookup.key, self.me, number, 0, False))
        elif lookup.tries > self._options.lookup_tries:
            del self._lookups[number]
            if not lookup.routine:
                self._wires.tell(KeyNotFound(lookup.key))
        else:
            self._wires.wake(timer, self._options.lookup_us)
            self._route(FindOwner(lookup.key, self.me, number, 0, lookup.routine))

    def owner_overdue(self, timer: OwnerOverdue) -> None:
        if timer.number in self._lookups:
            self._try(timer.number)

    def _find(self, name: str, message: FindOwner) -> None:
        from_key(message.key)
        if not self.is_member:
            self._early.append(message)
        elif message.hops < HOPS_MAX:
            self._route(message)

    def _route(self, message: FindOwner) -> None:
        """Answer it, or pass it on."""
        number = from_key(message.key)
        if self.owns(number):
            self._answer(message, self.me)
        elif self.successors and is_owned(self.number, number, member_number(self.successors[0])):
            self._answer(message, self.successors[0])
        elif self.successors:
            onward = FindOwner(message.key, message.origin, message.number, message.hops + 1, message.routine)
            self._wires.say(self.closest_before(number), onward)

    def closest_before(self, number: int) -> OverlayMember:
        """Of those that are known, the last one before a number that does not belong to the first successor. That one
        is among them, so it is never this member itself (S3)."""
        best, reach = self.successors[0], distance(self.number, number)
        length = distance(self.number, member_number(best))
        for member in (*self.successors, *self.fingers):
            far = distance(self.number, member_number(member))
            if length < far < reach:
                best, length = member, far
        return best

    def _answer(self, message: FindOwner, owner: OverlayMember) -> None:
        answer = OwnerFound(message.number, owner, message.hops, message.routine)
        if message.origin.name == self.me.name:
            self._found(self.me.name, answer)
        else:
            self._wires.say(message.origin, answer)

    def _found(self, name: str, message: OwnerFound) -> None:
        lookup = self._lookups.get(message.number)
        if lookup is None:
            return
        if not lookup.joins:
            del self._lookups[message.number]
            self._wires.let_sleep(OwnerOverdue(message.number, lookup.routine))
        if lookup.lost is not None:
            self.lost.pop(lookup.lost, None)
            self._calls.pop(lookup.lost, None)
            self._meet(message.owner)
        elif lookup.joins:  # asked again until it has answered
            if message.owner.name != self.me.name:
                self._joining_at = message.owner
                self._wires.say(message.owner, AskSuccessor(self.me.address, joins=True))
        elif lookup.finger is None:
            self._wires.tell(KeyFound(lookup.key, message.owner, message.hops))
        else:
            self.fingers.put(lookup.finger, message.owner if message.owner.name != self.me.name else None)

    # -- the ring ------------------------------------------------------------------------------------------------------

    def stabilise_due(self, timer: StabiliseDue) -> None:
        self._wires.wake(timer, self._options.stabilise_us)
        self._call_again()
        if self.successors:
            self._wires.say(self.successors[0], AskSuccessor(self.me.address, joins=False))
            if (finger := self.fingers.next(self.successors[0])) is not None:
                self._look_up(to_key(self.fingers.start(finger)), finger)

    def _call_again(self) -> None:
        """Somebody who was lost: two rings that a partition has made of one do not find together by themselves."""
        self._rounds += 1
        if self._rounds % CALLED_AGAIN or not self.lost or not self.is_member:
            return
        name = next(iter(self.lost))
        member = self.lost.pop(name)
        calls = self._calls[name] = self._calls.get(name, 0) + 1
        if calls < CALLS_MAX:
            self.lost[name] = member
        else:
            del self._calls[name]
        for number in [number for number, lookup in self._lookups.items() if lookup.lost is not None]:
            del self._lookups[number]
        self._numbers += 1
        key = to_key((self.number + 1) % SIZE)
        self._lookups[self._numbers] = _Lookup(key, None, joins=False, lost=name)
        self._wires.say(member, FindOwner(key, self.me, self._numbers, 0, True))

    def _meet(self, member: OverlayMember) -> None:
        """It follows this member on the ring of somebody who was lost."""
        if member.name == self.me.name:
            return
        if not self.successors:
            self._move(self.predecessor, [member])
        elif not is_between(self.number, member_number(member), member_number(self.successors[0])):
            return
        self._between = member.name
        self._wires.say(member, AskSuccessor(self.me.address, joins=False))

    def _asked(self, name: str, message: AskSuccessor) -> None:
        if not self.is_member:
            return
        member = OverlayMember(name, message.address)
        self._wires.say(member, self._say(message.joins))
        if not message.joins:
            self._rectify(member)

    def _rectify(self, member: OverlayMember) -> None:
        """It stands before this member, nearer than anybody else that is known to live."""
        before = self.predecessor
        if before is None or is_between(member_number(before), member_number(member), self.number):
            self._move(member, self.successors or [member])  # of two, each follows the other
            if before is not None:  # it need not find out by itself that somebody stands between
                self._wires.say(before, self._say(joins=False))

    def _say(self, joins: bool) -> SuccessorSays:
        return SuccessorSays(self.predecessor, tuple(self.successors), self.me.address, joins)

    def _told(self, name: str, message: SuccessorSays) -> None:
        message.check()
        member = OverlayMember(name, message.address)
        if not self.is_member:
            if self._joining_at is not None and name == self._joining_at.name:
                self._enter(member, message)
            return
        if not self.successors:
            return
        first, was_named = self.successors[0], name == self._between
        if was_named:
            self._between = None
        is_nearer = was_named and is_between(self.number, member_number(member), member_number(first))
        if name == first.name or is_nearer:
            self._move(self.predecessor, self._list(member, message))
            nearer = message.predecessor
            if nearer is not None and is_between(self.number, member_number(nearer), member_number(member)):
                self._between = nearer.name
                self._wires.say(nearer, AskSuccessor(self.me.address, joins=False))

    def _enter(self, member: OverlayMember, message: SuccessorSays) -> None:
        for number in [number for number, lookup in self._lookups.items() if lookup.joins]:
            del self._lookups[number]
            self._wires.let_sleep(OwnerOverdue(number, False))
        self.is_member, self._joining_at = True, None
        self.successors = self._list(member, message)
        self._wires.tell(RingJoined())
        self._wires.say(member, AskSuccessor(self.me.address, joins=False))
        while self._early:
            self._route(self._early.popleft())

    def _list(self, member: OverlayMember, message: SuccessorSays) -> list[OverlayMember]:
        """It and its successors, as far as they lie before this member."""
        found, reach = [member], distance(self.number, member_number(member))
        for other in message.successors:
            far = distance(self.number, member_number(other))
            if other.name == self.me.name or far <= reach or len(found) == self._options.successors:
                break
            found.append(other)
            reach = far
        return found

    def unreachable(self, name: str) -> None:
        """It cannot be reached."""
        beside = [self.predecessor] if self.predecessor is not None else []
        for member in (*beside, *self.successors, *self.fingers):
            if member.name == name:
                self.lost.pop(name, None)
                self.lost[name] = member
        if len(self.lost) > LOST_MAX:
            oldest = next(iter(self.lost))
            del self.lost[oldest]
            self._calls.pop(oldest, None)
        self.fingers.forget(name)
        if self.predecessor is not None and self.predecessor.name == name:
            self._move(None, self.successors)
        if any(member.name == name for member in self.successors):
            self._move(self.predecessor, [member for member in self.successors if member.name != name])
        if not self.successors and self.predecessor is not None:
            self._move(self.predecessor, [self.predecessor])  # beyond the bound: better than nobody

    def _move(self, predecessor: OverlayMember | None, successors: list[OverlayMember]) -> None:
        before = (self.predecessor, self.successors[:1])
        self.predecessor, self.successors = predecessor, successors
        if (predecessor, successors[:1]) != before:
            self._wires.tell(RingMoved())
