"""The succession as one of its seats sees it: which lists it has agreed to, and what the next list would be.

A list is decided when majorities have agreed to it: of the list decided before, of every list in between that anybody
in those majorities had agreed to, and of itself. A seat agrees to one list per version, its own proposals included,
and tells each candidate what it has agreed to since the last list that it knows to be decided. So any two lists that
are decided have met in a seat, and the later one was decided after the earlier one by its consent: there are never two
roots with majorities. Only the life that holds the seat may agree: a later one of the same name remembers nothing.
"""

from typing import Final

from resprout.overlay import lineage
from resprout.overlay.messages import Enrol
from resprout.overlay.places import Place, Registration, Seat, Succession, is_among
from resprout.overlay.pulse import Pulse
from resprout.overlay.standing import MembershipView

UNDECIDED_MAX: Final = 16
"""Lists that a seat agrees to without hearing that one was decided."""


class Lists:
    def __init__(self, standing: MembershipView, pulse: Pulse) -> None:
        self._standing = standing
        self._pulse = pulse
        self._agreed: dict[tuple[int, str], Succession] = {}

    # -- as a seat -----------------------------------------------------------------------------------------------------

    def undecided(self) -> tuple[Succession, ...]:
        """Everything after the list that is known to be decided, oldest first."""
        here = self._standing
        agreed = [x for x in self._agreed.values() if x.version > here.decided.version]
        self._agreed = {x.label: x for x in agreed}
        known = {**self._agreed}
        if here.succession.version > here.decided.version:
            known.setdefault(here.succession.label, here.succession)
        return tuple(sorted(known.values(), key=lambda x: x.label))

    def latest(self) -> Succession:
        return max((self._standing.decided, *self.undecided()), key=lambda x: x.version)

    def agree(self, succession: Succession) -> None:
        self._agreed[succession.label] = succession

    def answer(self, peer: str, message: Enrol) -> bool:
        """May this list follow? If so, it is agreed to."""
        here = self._standing
        here.follow_decided(message.decided)
        if message.new.label in self._agreed:
            return self._agreed[message.new.label] == message.new
        # The very list may have been heard of before it is asked about, from those who follow it: that is no rival.
        others = [x for x in (here.decided, *self.undecided()) if x != message.new]
        latest = max(others, key=lambda x: x.version, default=Succession())
        if len(self._agreed) >= UNDECIDED_MAX or not message.new.is_sound() or message.new.root != peer:
            return False
        if message.new.version <= latest.version or self._is_deserted(latest, peer, message):
            return False
        self.agree(message.new)
        here.record(Registration(message.dead, message.new))
        return True

    def _is_deserted(self, latest: Succession, peer: str, message: Enrol) -> bool:
        """There is another root that nobody has given up, and the proposal was not made with its list in mind."""
        if latest.root in (None, peer) or message.latest.version > latest.version:
            return False
        seat = latest.seats[0]
        is_buried = seat.incarnation <= self._standing.graves.get(seat.name, -1)
        return not is_buried and not is_among(seat.name, seat.incarnation, message.dead)

    # -- the next list -------------------------------------------------------------------------------------------------

    def propose(self, dead: frozenset[str], now_us: int) -> Succession:
        """This broker as the root, then the seats that are left, then whoever is nearest."""
        here = self._standing
        size = 2 * here.faults + 1
        latest = self.latest()
        seats = [Seat(here.name, here.incarnation, here.address)]
        left = [seat for seat in latest.seats if seat.name != here.name and seat.name not in dead]
        seats += [seat for seat in left if not self.has_lost(seat, now_us)]
        taken = {seat.name for seat in seats}
        for name in lineage.branches(here, here.reach + 1):
            if name in taken or name in dead or len(seats) >= size:
                continue
            place = here.places.get(name)
            is_known = place is not None and place.version > 0
            if place is not None and is_known and self._may_sit(place):
                seats.append(Seat(name, place.incarnation, place.address))
        return Succession(latest.version + 1, tuple(seats[:size]))

    def _may_sit(self, place: Place) -> bool:
        """Not one that is gone, or is not heard now: it would be lost again, and the list change for ever."""
        here, pulse = self._standing, self._pulse
        gone = here.is_dead(place.name) or pulse.refuses(place.name) or place.life in here.forgotten
        return not gone and place.name not in pulse.quiet

    def has_lost(self, seat: Seat, now_us: int) -> bool:
        """This seat can no longer vote: its life is over, or the root has not heard it for long."""
        here, pulse = self._standing, self._pulse
        if seat.incarnation <= here.graves.get(seat.name, -1) or seat.incarnation < here.incarnation_of(seat.name):
            return True
        if pulse.refuses(seat.name) or seat.life in here.forgotten:
            return True
        return here.leads_list and pulse.silence_us(seat.name, now_us) > 3 * pulse.patience_us
