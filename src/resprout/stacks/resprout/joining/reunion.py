"""How brokers that remember their network find it again, and how they go on after all of them have stopped.

A broker with a memory (`overlay.configurations`) tells every broker that it knows what it remembers (`Whereabouts`),
once per heartbeat. One that has a place answers so, and is asked for a place as usual (`newcomer`). If all of them
look, they collect what each other remembers. When the next lives of enough voters have met, the first of them in the
order of the configuration proposes the next configuration, with itself as the root and those who are there as voters.
It asks each for its consent (`Enrol`), by the rules of `overlay.configurations`: a voter agrees to one configuration
per version, writes that down before it answers, and tells what it had agreed to before. With the consent of enough
voters of the last decided configuration, of every later one that anybody has agreed to, and of a majority of the new
one, the proposal is decided: that broker is the root of the same network, and the others join it.

There are never two networks: any two decided configurations, in a living tree or here, share a voter
(docs/decisions/12). Ranks and waiting times below only keep brokers from disturbing each other.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from resprout.core.contract import Locate
from resprout.core.limits import newcomer_name
from resprout.order.totals.totals import Totals
from resprout.overlay.configurations import OTHERS_KEPT, Whereabouts
from resprout.overlay.council import Council
from resprout.overlay.lineage import Liveness
from resprout.overlay.messages import Configuration, Enrol, Enrolled, Fenced, Life, Voter
from resprout.stacks.peers import Peer, Peers
from resprout.stacks.resprout.joining.newcomer import Newcomer
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import Reunited, Settled
from resprout.stacks.resprout.remembered import RememberedBrokers
from resprout.stacks.resprout.waiting import listed

SOUGHT_MAX: Final = 1_024
"""Brokers that one that looks for its network calls."""
FRESH_LEASES: Final = 2
"""So long a broker that looks, too, counts as present without a further word."""
RANK_LEASES: Final = 2
"""So long each voter leaves it to the one before it to propose."""
TELL_FACTOR: Final = 2
TELL_SECONDS_MAX: Final = 600
"""People are told who is missing after a lease, then after twice that, and so on up to this."""


class SeekingBroker(msgspec.Struct, frozen=True):
    """Another broker that looks for the same network."""

    incarnation: int
    told: Whereabouts
    heard_us: int


class ReunionProposal:
    """The configuration that this broker wants decided."""

    def __init__(self, number: int, new: Configuration, dead: tuple[Life, ...], yes: set[Life], now_us: int) -> None:
        self.number = number
        self.new = new
        self.dead = dead
        self.yes = yes
        self.asked_us = now_us


class Reunion:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        totals: Totals,
        remembered: RememberedBrokers,
        council: Council,
        newcomer: Newcomer,
    ) -> None:
        self._life = life
        self._peers = peers
        self._totals = totals
        self._remembered = remembered
        self._council = council
        self._newcomer = newcomer
        self._seekers: dict[str, SeekingBroker] = {}
        self._told: dict[str, int] = {}
        """Life of a broker that was told all there is to tell, by name."""
        self._known: dict[tuple[int, str], Configuration] = {}
        """Every configuration that anybody here has agreed to or knows to be decided."""
        self._others: dict[str, int] = {}
        """Latest lives that anybody here remembers."""
        self._decided = Configuration()
        self._met_us: int | None = None
        """Since when enough voters are here."""
        self._proposal: ReunionProposal | None = None
        self._number = 0
        self._elsewhere: set[str] = set()
        """Voters that made this broker the root, and have a place below another root."""
        self._since_us = 0
        self._tell_us = 0
        self._tell_after_us = 0
        self._said = ""
        self._awaited: list[str] = []
        """Voters that people were told of."""

    def start(self) -> None:
        life, memory = self._life, self._remembered.memory
        assert memory is not None
        self._peers.is_newcomer = True
        life.view.own_lives = (*[one for one in memory.lives if one != life.seat.incarnation], life.seat.incarnation)
        self._council.configurations.restore(memory.decided, memory.agreed, memory.proposed)
        self._decided = memory.decided
        self._learn((memory.decided, *memory.agreed), memory.others)
        self._tell_after_us = life.options.lease_us
        self._tell_us = life.now_us + self._tell_after_us
        self._since_us = life.now_us
        seat = life.seat
        self.look_for([*([seat.parent] if seat.parent is not None else []), *seat.contacts])
        for voter in (voter for x in (memory.decided, *memory.agreed) for voter in x.voters):
            self._add(voter.name, voter.address)
        self._council.configurations.keep()  # others may make this very life a voter as soon as they hear of it
        self._announce()
        self._check()

    def look_for(self, names: Iterable[str]) -> None:
        """The driver knows where these listen."""
        for name in names:
            if self.is_seeking and name != self._life.seat.name and len(self._remembered.sought) < SOUGHT_MAX:
                self._remembered.sought[name] = None

    @property
    def is_seeking(self) -> bool:
        return self._remembered.memory is not None and not self._life.attached and not self._life.retired

    def tick(self) -> None:
        life = self._life
        if life.gathering:
            self._look_who_joined()
        if life.attached:
            self._tell_awaited()
        if not self.is_seeking:
            return
        fresh_us = life.now_us - FRESH_LEASES * life.options.lease_us
        self._seekers = {name: seeker for name, seeker in self._seekers.items() if seeker.heard_us >= fresh_us}
        self._announce()
        self._check()
        self._newcomer.choose_living()
        self._tell()

    # -- who is there --------------------------------------------------------------------------------------------------

    def heard(self, peer: Peer, message: Whereabouts) -> None:
        life, session, incarnation = self._life, peer.name, peer.incarnation
        message.check()
        name = newcomer_name(session) or session
        if life.attached:
            if message.placed:
                self._compare_roots(peer, name, message)
            else:
                if self._is_left_out(name, incarnation):
                    self._peers.post(session, Fenced(incarnation))
                if self._council.leased or self._consents(name, incarnation, message):
                    self._peers.post(session, Whereabouts(life.view.network, True))
                if message.network == life.view.network and incarnation in message.lives:
                    self._outlives(name, incarnation, message.lives)
                    self._council.met_heir(session, name, message.lives)
            return
        if self._remembered.memory is None or name == life.seat.name:
            return
        if message.placed:
            self._seekers.pop(name, None)
            self._newcomer.living(name)
            return
        if message.network != self._remembered.memory.network or incarnation not in message.lives:
            return
        self._add(name, message.address)
        known = self._seekers.get(name)
        self._seekers[name] = SeekingBroker(incarnation, message, life.now_us)
        self._learn((message.decided, *message.undecided), message.others)
        if message.decided.version > self._decided.version:
            self._decided = message.decided
        if known is None:
            self._announce_to(name)
        self._check()

    def _compare_roots(self, peer: Peer, name: str, message: Whereabouts) -> None:
        """A root that gathers its voters asks one of them, which has a place; or a voter of this root answers so. An
        operator may have founded the network anew meanwhile: then its voters have another root, and it goes there."""
        life, view = self._life, self._life.view
        if life.gathering and not message.decided.voters and name in view.decided.names and name not in view.places:
            self._elsewhere.add(name)
            left = [voter.life for voter in view.decided.voters if voter.name not in self._elsewhere]
            if not view.is_strict_majority(view.decided, left):
                life.retire(f"{listed(sorted(self._elsewhere))} have made another broker the root")
        elif message.decided.holds(view.name, view.incarnation) and message.network == view.network:
            is_later = view.decided.version > message.decided.version
            if is_later and view.decided.root != name and self._council.leased:
                self._peers.post(peer.name, Whereabouts(view.network, True))

    def _consents(self, name: str, incarnation: int, message: Whereabouts) -> bool:
        """While this broker gathers those who made it the root, it has no lease: none of them pings it before it has
        joined. A voter that has agreed to nothing later is to join; one that has may have another root by now. A
        broker without a lease tells nobody else that it has a place, because it may have been left out itself."""
        view = self._life.view
        latest = max([x.version for x in (message.decided, *message.undecided)], default=0)
        return self._life.gathering and view.decided.holds(name, incarnation) and latest <= view.decided.version

    def _is_left_out(self, name: str, incarnation: int) -> bool:
        """This very life was about to be taken in by a broker that has died. Its place is known here, and it has none:
        its next life can be taken in elsewhere."""
        view = self._life.view
        place = view.places.get(name)
        if place is None or place.incarnation != incarnation or place.parent in (None, view.name):
            return False
        assert place.parent is not None
        return view.is_dead(place.parent) or self._council.has_ended(place.parent)

    def _outlives(self, name: str, incarnation: int, lives: tuple[int, ...]) -> None:
        """This life has the memory of those before it, which only one process at a time can have: they are over. Nobody
        else may say so, because the session with it is that of a newcomer."""
        life = self._life
        latest = max([life for life in lives if life < incarnation], default=0)
        if latest and not self._peers.is_heard(name):
            self._council.outlived(Life(name, latest), life.now_us)

    def lost(self, session: str) -> None:
        """Its session is over, and with it what it was told."""
        self._told.pop(session, None)

    def _add(self, name: str, address: str) -> None:
        life = self._life
        if name not in self._remembered.sought and name != life.seat.name and len(self._remembered.sought) < SOUGHT_MAX:
            self._remembered.sought[name] = None
            if address:
                life.out.append(Locate(name, address))

    def _learn(self, configurations: Iterable[Configuration], others: Iterable[Life]) -> None:
        for configuration in configurations:
            if configuration.voters and not self._council.configurations.is_own(configuration):
                self._known[configuration.label] = configuration
        for life in others:
            self._others[life.name] = max(life.incarnation, self._others.get(life.name, 0))

    def _announce(self) -> None:
        for name in self._remembered.sought:
            self._announce_to(name)

    def _announce_to(self, name: str) -> None:
        life, memory = self._life, self._remembered.memory
        assert memory is not None
        peer = self._peers.get(name)
        if peer is not None and peer.errands:
            return  # it was called, and what it is to hear waits for it
        incarnation = self._peers.incarnation(name)
        is_known = incarnation and self._told.get(name) == incarnation
        if incarnation:
            self._told[name] = incarnation
        configurations = self._council.configurations
        self._peers.post(
            name,
            Whereabouts(
                memory.network, False, life.seat.address, life.view.own_lives, memory.epoch, life.view.decided,
                configurations.undecided(), () if is_known else memory.others[:OTHERS_KEPT],
            ),
        )  # fmt: skip

    # -- going on ------------------------------------------------------------------------------------------------------

    def _needed(self) -> list[Configuration]:
        """The latest that was decided, as far as anybody here knows, and all that may have been decided since."""
        known = [x for x in self._known.values() if x.version >= self._decided.version]
        known = [x for x in known if x.version > self._decided.version or x == self._decided]
        return sorted(known, key=lambda x: x.label)

    def _present(self) -> set[Life]:
        here = self._life.view
        lives = {Life(here.name, incarnation) for incarnation in here.own_lives}
        for name, seeker in self._seekers.items():
            lives.update([Life(name, incarnation) for incarnation in seeker.told.lives])
        return lives

    def _check(self) -> None:
        """Whether it is time for this broker to propose itself."""
        life = self._life
        if not self.is_seeking or self._proposal is not None:
            self._ask_again()
            return
        present, needed = self._present(), self._needed()
        if not needed or not all(life.view.may_reunite(x, present) for x in needed):
            self._met_us = None
            return
        if self._met_us is None:
            self._met_us = life.now_us
        order = [voter.name for voter in needed[-1].voters if voter.life in present]
        if life.seat.name in order and life.now_us - self._met_us >= self._wait_us(order, present, needed):
            self._propose(needed)

    def _wait_us(self, order: list[str], present: set[Life], needed: list[Configuration]) -> int:
        """Somebody who is not here yet may have a place, or may be about to start."""
        life = self._life
        lease_us = life.options.lease_us
        everybody = all(voter.life in present for x in needed for voter in x.voters)
        nobody_else = all(name in self._seekers or self._is_gone(name) for name in self._remembered.sought)
        rank = order.index(life.seat.name)
        return (0 if everybody and nobody_else else lease_us) + rank * RANK_LEASES * lease_us

    def _is_gone(self, name: str) -> bool:
        peer = self._peers.get(name)
        return peer is not None and peer.liveness >= Liveness.ENDED

    def _propose(self, needed: list[Configuration]) -> None:
        life, here = self._life, self._life.view
        voters = {life.seat.name: here.as_voter()}
        for name in (*[voter.name for voter in needed[-1].voters], *self._seekers):
            seeker = self._seekers.get(name)
            if seeker is not None:
                voters.setdefault(name, Voter(name, seeker.incarnation, seeker.told.address, True))
        chosen = tuple(voters.values())[: 2 * here.faults + 1]
        mind = self._council.configurations
        version = max(mind.proposed, *[x.version for x in (*needed, *mind.undecided())]) + 1
        now = {Life(name, seeker.incarnation) for name, seeker in self._seekers.items()} | {here.life(life.seat.name)}
        dead = tuple(sorted({voter.life for x in needed for voter in x.voters} - now))
        self._number += 1
        mine = {Life(here.name, incarnation) for incarnation in here.own_lives}
        self._proposal = ReunionProposal(self._number, Configuration(version, chosen), dead, mine, life.now_us)
        mind.agree(self._proposal.new)
        self._ask()
        self._count()

    def _ask(self) -> None:
        proposal, needed = self._proposal, self._needed()
        assert proposal is not None
        proposal.asked_us = self._life.now_us
        for name, seeker in self._seekers.items():
            if Life(name, seeker.incarnation) not in proposal.yes:
                question = Enrol(
                    proposal.number, seeker.incarnation, proposal.dead, proposal.new, needed[-1], self._decided
                )
                self._peers.post(name, question)

    def _ask_again(self) -> None:
        proposal, life = self._proposal, self._life
        if proposal is not None and self.is_seeking and life.now_us - proposal.asked_us >= life.options.lease_us:
            self._ask()

    def asked(self, peer: Peer, message: Enrol) -> None:
        """Another one proposes itself. One that has a place already says so instead."""
        life = self._life
        name = newcomer_name(peer.name) or peer.name
        if life.attached:
            self._peers.post(peer.name, Whereabouts(life.view.network, True))
        elif self._remembered.memory is not None and not self._goes_before(name, message):
            self._proposal = None  # its turn comes when that one has failed
            self._met_us = life.now_us
            mind = self._council.configurations
            mind.withdraw()
            self._council.take(name, message, life.now_us)
            self._learn((message.decided, *mind.agreed), ())

    def _goes_before(self, other: str, message: Enrol) -> bool:
        """Both propose themselves: the first voter goes on."""
        if self._proposal is None or message.new.version > self._proposal.new.version:
            return False
        order = {voter.name: rank for rank, voter in enumerate(self._needed()[-1].voters)}
        return order.get(self._life.seat.name, len(order)) < order.get(other, len(order))

    def answered(self, peer: Peer, message: Enrolled) -> None:
        """A voter's answer to a proposal of this broker."""
        life, proposal = self._life, self._proposal
        name = newcomer_name(peer.name) or peer.name
        if life.attached:
            self._council.heir_enrolled(name, message, life.now_us)
            return
        seeker = self._seekers.get(name)
        if proposal is None or message.number != proposal.number or seeker is None:
            return
        if message.incarnation != seeker.incarnation:
            return
        configurations = [x for x in message.undecided if x != proposal.new and x.is_sound()]
        self._learn([x for x in (message.decided, *configurations) if x.is_sound()], ())
        if message.decided.version > self._decided.version and message.decided.is_sound():
            self._decided = message.decided
        if message.yes:
            proposal.yes.update([Life(name, incarnation) for incarnation in seeker.told.lives])
            self._count()
        elif any(x.version >= proposal.new.version for x in (message.decided, *configurations)):
            self._proposal = None
            self._met_us = life.now_us

    def _count(self) -> None:
        proposal, view = self._proposal, self._life.view
        assert proposal is not None
        needed = [x for x in self._needed() if x != proposal.new]
        if all(view.may_reunite(x, proposal.yes) for x in needed) and view.is_strict_majority(
            proposal.new, proposal.yes
        ):
            self._lead(proposal)

    def _lead(self, proposal: ReunionProposal) -> None:
        life, view, memory = self._life, self._life.view, self._remembered.memory
        assert memory is not None
        self._proposal = None
        view.epoch = max([memory.epoch, *[seeker.told.epoch for seeker in self._seekers.values()]])
        now = {name: seeker.incarnation for name, seeker in self._seekers.items()}
        lives = {Life(name, life) for name, life in self._others.items()}
        lives.update([voter.life for x in self._known.values() for voter in x.voters])
        view.bury(sorted([one for one in lives if one.incarnation < now.get(one.name, one.incarnation + 1)]))
        view.lead(memory.network, proposal.new)
        self._totals.become_root(view.epoch + 1)
        self._newcomer.placed()
        life.gathering = True
        self._tell_after_us = life.options.lease_us
        self._tell_us = life.now_us + self._tell_after_us
        with_whom = f" with {listed(sorted(now))}" if now else ""
        life.note("reunited", f"{life.seat.name} goes on with the network {memory.network}{with_whom}")
        for name in self._remembered.sought:
            self._peers.close(name, f"{life.seat.name} has a place now")
        self._look_who_joined()
        life.outcomes.append(Reunited())

    def _look_who_joined(self) -> None:
        """Most of those who have agreed must be in the tree before anybody is served: if this broker is cut off from
        them by now, they may go on without it."""
        life, view = self._life, self._life.view
        lives = [Life(view.name, view.incarnation), *[place.life for place in view.places.values() if place.version]]
        if view.is_strict_majority(view.decided, lives):
            life.gathering = False
            life.outcomes.append(Settled())
            return
        for voter in view.decided.voters:
            if voter.life not in lives:
                self._peers.post(voter.name, Whereabouts(view.network, True, decided=view.decided))
        if life.now_us >= self._tell_us:
            self._tell_after_us = min(TELL_FACTOR * self._tell_after_us, TELL_SECONDS_MAX * 1_000_000)
            self._tell_us = life.now_us + self._tell_after_us
            absent = [voter.name for voter in view.decided.voters if voter.life not in lives]
            life.note("reunion_waits", f"{life.seat.name} leads {view.network} and waits for {listed(absent)} to join")

    # -- for people ----------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Who is missing: rarely, and when that has changed."""
        life = self._life
        if life.now_us < self._tell_us:
            return
        missing = self._missing()
        if missing and missing == self._said:
            self._tell_after_us = min(TELL_FACTOR * self._tell_after_us, TELL_SECONDS_MAX * 1_000_000)
        elif missing:
            self._tell_after_us = life.options.lease_us
        self._said = missing
        self._tell_us = life.now_us + self._tell_after_us
        if missing:
            life.note("reunion_waits", f"{missing} ({(life.now_us - self._since_us) // 1_000_000} s so far)")

    def _tell_awaited(self) -> None:
        """More voters are gone at once than may be: the others cannot know that these do not go on by themselves."""
        life, awaited = self._life, self._council.awaited_voters
        names = sorted({one.name for one in awaited})
        if names != self._awaited:
            self._awaited = names
            if names:
                life.note(
                    "voters_missing",
                    f"the repair waits until enough of {listed(names)} are back, who might go on without"
                    f" {life.seat.name}; if they never return: resprout forget {' '.join(names)}",
                )

    def _missing(self) -> str:
        """Empty when enough voters are here."""
        life, memory = self._life, self._remembered.memory
        assert memory is not None
        present = self._present()
        lines = []
        for x in self._needed():
            count = life.view.missing_for_reunion(x, present)
            if count:
                absent = [voter for voter in x.voters if voter.life not in present]
                names = listed([f"{voter.name} ({voter.address})" if voter.address else voter.name for voter in absent])
                how_many = f"{count} more of them" if count < len(absent) else "it" if count == 1 else "all of them"
                lines.append(f"{names} missing, {how_many} needed")
        if not lines:
            return ""
        here = f" with {listed(sorted(self._seekers))}" if self._seekers else ""
        return f"{life.seat.name} waits{here} for its network {memory.network}: {'; '.join(dict.fromkeys(lines))}"
