"""Who asks this broker for a place, and whether the name is theirs to take.

A newcomer's name is looked for in the whole tree first (`overlay.waves`). A broker of that name that lives keeps it:
the newcomer is refused, for people to see to. An earlier life that is dead and not repaired yet is waited for, and so
is one that is not heard: the census has no answer before it speaks or is declared dead. A newcomer whose incarnation is
not above every life that the tree remembers is told which one it must be above.

Two newcomers may ask for one name at two brokers at the same time. A claim is known here before it is looked for, so
at least one of the two is found by the other one's census. Whoever finds the other does not go on: the later of the two
lets go of its claim for a while, the earlier one looks again. By then one of them stands.
"""

from resprout.core.contract import ProtocolMessage
from resprout.core.limits import newcomer_name
from resprout.overlay.messages import Fenced, Namesake
from resprout.overlay.waves import NAMES_MAX, Census, CensusFindings
from resprout.stacks.peers import Peers
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.messages import Cleared, NameTaken


class Claim:
    """One newcomer that waits for a place."""

    __slots__ = ("address", "incarnation", "is_clear", "key", "name", "rests_until_us", "yields_until_us")

    def __init__(self, key: str, incarnation: int, address: str) -> None:
        self.key = key
        """Of its session: its name, or `newcomer_key` while it has no right to it."""
        self.name = newcomer_name(key) or key
        self.incarnation = incarnation
        self.address = address
        self.is_clear = False
        """Nobody else bears the name."""
        self.rests_until_us = 0
        """It was looked for in vain: what is missing takes time."""
        self.yields_until_us = 0
        """It lets another newcomer of the same name go first."""

    @property
    def life(self) -> tuple[int, str]:
        return self.incarnation, self.address


class Claims:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        census: Census,
    ) -> None:
        self._life = life
        self._peers = peers
        self._census = census
        self.waiting: dict[str, Claim] = {}
        """Those that ask, by the keys of their sessions."""
        self._asked: list[Claim] | None = None
        """For whom a census is under way. A claim that came later may have been missed by another one's."""
        self._is_looking = False
        self.admitted: dict[str, Claim] = {}
        """Those that are being taken in."""

    def put(self, claim: Claim) -> None:
        """Whoever asks again, because a census takes longer than it waits, is looked for already: it goes on."""
        known = self.waiting.get(claim.key)
        if known is None or known.life != claim.life:
            self.waiting[claim.key] = claim

    def all(self) -> list[Claim]:
        return list(self.waiting.values())

    def admit(self, claim: Claim) -> None:
        del self.waiting[claim.key]
        self.admitted[claim.name] = claim

    def put_back(self, claim: Claim) -> None:
        self.waiting.setdefault(claim.key, claim)

    def drop(self, key: str) -> bool:
        """It went, or goes elsewhere. True when it was here."""
        name = newcomer_name(key) or key
        admitted = self.admitted.get(name)
        if admitted is not None and admitted.key == key:
            del self.admitted[name]
            return True
        return self.waiting.pop(key, None) is not None

    def gets_on(self, key: str) -> bool:
        """Its turn will come here, and would not come sooner elsewhere."""
        claim = self.waiting.get(key) or self.admitted.get(key)
        return claim is not None and claim.rests_until_us <= self._life.now_us

    def clear(self, room: int) -> list[Claim]:
        """Those whose names are theirs; the others are looked for, unless there is no room for more than these."""
        for key, claim in list(self.waiting.items()):
            if self._peers.incarnation(key) != claim.incarnation:
                del self.waiting[key]
        if sum(claim.is_clear for claim in self.waiting.values()) < room:
            self._is_looking = True
            self._look()
            self._is_looking = False
        return [claim for claim in self.waiting.values() if claim.is_clear]

    def _look(self) -> None:
        now_us = self._life.now_us
        if self._asked is not None:
            return
        unclear = [claim for claim in self.waiting.values() if not claim.is_clear and claim.rests_until_us <= now_us]
        if unclear:
            asked = self._asked = unclear[:NAMES_MAX]
            self._census.ask(tuple(dict.fromkeys([claim.name for claim in asked])), self._found)

    def told(self, name: str) -> list[Namesake]:
        """To a census of somebody else, or our own."""
        now_us, me = self._life.now_us, self._life.seat.name
        waiting = [claim for claim in self.waiting.values() if claim.name == name and claim.yields_until_us <= now_us]
        if name in self.admitted:
            waiting.append(self.admitted[name])
        return [Namesake(name, claim.incarnation, claim.address, me, False) for claim in waiting]

    def _found(self, findings: CensusFindings) -> None:
        life = self._life
        asked, self._asked = self._asked or [], None
        for claim in asked:
            if self.waiting.get(claim.key) is claim and self._peers.incarnation(claim.key) == claim.incarnation:
                self._judge(claim, findings)
        if not self._is_looking:
            life.outcomes.append(Cleared())

    def _judge(self, claim: Claim, findings: CensusFindings) -> None:
        life = self._life
        others = [x for x in findings.namesakes if x.name == claim.name and (x.incarnation, x.address) != claim.life]
        bearer = next((x for x in others if x.stands), None)
        if bearer is not None:
            where = f" at {bearer.address}" if bearer.address else ""
            whose = f"below {bearer.above}" if bearer.above else "the root"
            reason = f"a broker called {claim.name} lives{where} ({whose}); every broker has a name of its own"
            life.note("name_taken", f"a second {claim.name} is refused: {reason}")
            self._turn_away(claim, NameTaken(reason))
        elif findings.latest[claim.name] >= claim.incarnation:
            self._turn_away(claim, Fenced(findings.latest[claim.name]))
        elif any((x.incarnation, x.address) < claim.life for x in others):
            claim.yields_until_us = claim.rests_until_us = life.now_us + life.options.lease_us
        elif not others and findings.complete:
            claim.is_clear = True
        else:
            claim.rests_until_us = life.now_us + life.options.heartbeat_us

    def _turn_away(self, claim: Claim, answer: ProtocolMessage) -> None:
        """Its life is over, and so is its session."""
        del self.waiting[claim.key]
        self._peers.post(claim.key, answer)
        if claim.key != claim.name:
            self._peers.close(claim.key, "it was told why")
