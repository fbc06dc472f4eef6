"""One conversation of a liar with honest brokers, in memory: its words are fuzzed, the promises of others are checked.

Three brokers, b0 with the children b1 and b2, and honest clients at b0 and b2. The liar is a client of b0, or it is the
broker b1: it has joined honestly, its machine goes on, and between what that says it says other things. The oracle:

- no exception leaves the `step` of an honest machine, and no step takes `STEP_SECONDS_MAX` of processor time
- honest machines say only what the codec lets pass: otherwise whoever hears it would cut them off
- honest brokers and clients never close a session with each other, and no honest broker begins another life
- every honest subscriber gets each honest publication exactly once, those of one publisher in their order
- every honest publication turns safe
- when the liar is gone, the network comes to rest
"""

import traceback
from collections import deque
from typing import Any, Final

import msgspec

from resprout.core.bundle import unpack_payloads
from resprout.core.contract import Received
from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.requests import Published, PublishRequest, ReceiptTurned, SubscribeRequest
from resprout.values.rows import RETAIN_KEY
from tests.fuzz.fuzzed_tree import (
    CODEC,
    HONEST,
    SERVED,
    SERVED_ELSEWHERE,
    FindingError,
    FuzzedTree,
    Silent,
    no_endless_step,
    short,
)
from tests.fuzz.grammar import FastRandom, Wire
from tests.fuzz.lies import Lies, Role, is_accepted
from tests.fuzz.stores import LOGS

STEP_SECONDS_MAX: Final = 5.0
"""Of processor time. An honest step takes milliseconds; the budgets of a broker are far below this."""
TO_OTHERS: Final = 0.2
"""Share of what a lying broker says to brokers that are not its parent."""
LAST_SHOWN: Final = 8
"""Messages of the liar that a finding shows."""
BURSTS: Final = (1, 2, 4, 8, 16, 32)
"""Messages that the liar says in one round."""
JOINS_IN_VAIN_MAX: Final = 10
ATTEMPTS_PER_MESSAGE: Final = 20
"""Until an episode gives up on a liar that is no longer heard."""
SETTLING_BEATS: Final = 12
FOUNDING_BEATS: Final = 12
"""Until the logs are founded and fed."""
STEPS_OF_A_ROUND: Final = 1_000
STEPS_MAX: Final = 60_000
"""Until a network of this size must have come to rest."""

NAMES: Final = (
    "b0", "b1", "b2", "p", "near", "s", "q", "evil", "b9", "b0.events", "ghost", "kept", "shared", "log.kept", "b0.1",
    "b1.1", "b1.1.1.1", "kept|b1.1", "shared|b1.1", "kept|b0.1",
)  # fmt: skip


class Finding(msgspec.Struct, frozen=True):
    role: Role
    seed: int
    forged: int
    """How many messages the liar had said."""
    consequence: str
    while_handling: str
    """The message, or the event, that an honest node was given when it showed."""
    last_forged: tuple[str, ...]

    @property
    def signature(self) -> tuple[str, str]:
        return self.consequence.partition(" [")[0][:160], self.while_handling.partition("(")[0]


class Episode:
    """`messages`: that honest nodes are to be given by the liar."""

    def __init__(self, role: Role, seed: int, messages: int) -> None:
        self.role: Role = role
        self.seed = seed
        self._wanted = messages
        self._rng = FastRandom(f"{role} {seed}")
        self.liar = "evil" if role == "client" else "b1"
        self.tree = FuzzedTree(self.liar, seed)
        publishers = {peer: ("evil", "ghost", *SERVED[peer]) for peer in SERVED}
        if role == "client":
            publishers = {"b0": ("evil", "evil", "p", "s", "b0")}
        self._lies = Lies(role, self._rng, NAMES, publishers)
        self._wire = Wire(CODEC)
        self.forged = 0
        self.refused_by_the_wire = 0
        self._joined_in_vain = 0
        """How often a lying broker found no place within a round."""
        self._last: deque[Any] = deque(maxlen=LAST_SHOWN)
        self._published: dict[str, list[bytes]] = {name: [] for name in HONEST}

    @property
    def heard(self) -> int:
        return self.tree.heard

    def run(self) -> Finding | None:
        try:
            with no_endless_step(self.tree, STEP_SECONDS_MAX):
                self.begin()
                attempts_max = ATTEMPTS_PER_MESSAGE * self._wanted
                while self.heard < self._wanted and self.forged + self.refused_by_the_wire < attempts_max:
                    if self.tree.outlived >= NUMBER_MAX or self._joined_in_vain >= JOINS_IN_VAIN_MAX:
                        break  # the liar has had all its lives declared dead, or keeps itself out
                    self._round()
                self._end()
        except FindingError as finding:
            return self.found(str(finding))
        except Exception as error:
            return self.found(_told(error))
        return None

    def found(self, consequence: str) -> Finding:
        name, event = self.tree.handling or ("", "")
        event = event.message if isinstance(event, Received) else event
        return Finding(
            self.role,
            self.seed,
            self.forged,
            consequence,
            f"{type(event).__name__}({name}, {short(event)})",
            tuple([short(message) for message in self._last]),
        )

    # -- the conversation --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.tree.start()
        for name in HONEST:
            self.tree.ask(name, SubscribeRequest("t"))
        if self.role == "client":
            self.tree.ask("evil", SubscribeRequest("t"))
        for _ in range(FOUNDING_BEATS):
            self.tree.run(STEPS_MAX)
            self.tree.detector()
        self.tree.run(STEPS_MAX)
        self.publish()
        self.tree.run(STEPS_MAX)
        if self.role == "client":
            self.tree.put_in_place("evil", Silent())
            self.tree.wishes.pop(("evil", "b0"), None)

    def _round(self) -> None:
        rng, tree = self._rng, self.tree
        at_once = rng.random() < 0.8
        for _ in range(rng.choice(BURSTS)):
            self._lie(at_once)
        if rng.random() < 0.5:
            self.publish()
        for _ in range(rng.randint(0, 12)):
            tree.one()
        if rng.random() < 0.07:
            tree.go_on(STEPS_OF_A_ROUND)

    def publish(self) -> None:
        name = self._rng.choice(sorted(HONEST))
        payload = f"{name} {len(self._published[name])}".encode()
        self._published[name].append(payload)
        guarantee = self._rng.choice(list(Guarantee))
        keys = self._rng.choice(((), ("k1",), (RETAIN_KEY,) if guarantee is Guarantee.TOTAL else ()))
        self.tree.ask(name, PublishRequest("t", payload, guarantee, keys))

    def _lie(self, at_once: bool) -> None:
        """Say one thing, or a parcel. `at_once`: it arrives before anything else happens."""
        peer = self._meet()
        if self.role == "client" and self._rng.random() < 0.15:
            messages = [self._fitting()]
        else:
            messages = self._lies.next(peer, self.tree.recorded, self.tree.said)
        for message in messages:
            if not self._say(peer, message) and message is messages[0]:
                break  # without its head, a parcel is none
        if at_once:
            self.tree.let_arrive(self.liar, peer)

    def _meet(self) -> str:
        """Return the broker that is lied to, with a session: a client's own; of a member mostly its parent, and
        sometimes a broker of another branch, which may know it as a voter or not at all."""
        tree = self.tree
        if self.role == "client":
            if (self.liar, "b0") not in tree.sessions:
                tree.connect(self.liar, "b0")
                self._say("b0", self._lies.greeting())
                tree.let_arrive(self.liar, "b0")
            return "b0"
        if self.liar not in tree.machines:
            tree.recover(self.liar)
        if tree.parent_of_liar is None:
            tree.go_on(STEPS_OF_A_ROUND, lambda: tree.parent_of_liar is not None)  # it joins again
            self._joined_in_vain += tree.parent_of_liar is None
        peer = tree.parent_of_liar or "b0"
        if self.liar not in tree.machines:
            tree.recover(self.liar)
        if self._rng.random() < TO_OTHERS:
            peer = self._rng.choice([name for name in SERVED if name != peer])
        if (self.liar, peer) not in tree.sessions:
            tree.connect(self.liar, peer)
        return peer

    def _say(self, peer: str, message: Any) -> bool:
        """False when it is not said: the codec refuses it, or a member may say it by design."""
        message = self._wire.carry(message)
        seen = self.tree.honest_broker(peer).parts.seen
        is_parent = peer == self.tree.parent_of_liar
        served, elsewhere = SERVED[peer], SERVED_ELSEWHERE[peer]
        if message is None or is_accepted(self.role, message, served, elsewhere, seen.has, is_parent):
            self.refused_by_the_wire += message is None
            return False
        self.forged += 1
        self._last.append(message)
        self.tree.forge(self.liar, peer, message)
        return True

    def _fitting(self) -> Any:
        """What the liar's broker expects next from it."""
        session = self.tree.brokers["b0"].parts.sessions.all.get("evil")
        if session is not None and session.consumes:
            return self._lies.settlement(self.tree.handed)
        return self._lies.publication(session.last, session.gave) if session is not None else self._lies.greeting()

    # -- what must be true at the end --------------------------------------------------------------------------------

    def _end(self) -> None:
        tree = self.tree
        if self.role == "client":
            tree.lose("evil")
        elif self.liar in tree.machines:
            tree.crash(self.liar)
        self._settle()
        for name in HONEST:
            tree.handling = (name, "the last publications")
            self._publish_as(name)
        self._settle()
        tree.handling = ("", "the end")
        for name in HONEST:
            self._check_delivered(name)
            self._check_safe(name)
        self._check_log()
        self._check_values()

    def _settle(self) -> None:
        """Until nothing is left to do. What signs of life repeat is forgotten when its sender is gone."""
        for _ in range(SETTLING_BEATS):
            self.tree.run(STEPS_MAX)
            self.tree.detector()
        self.tree.run(STEPS_MAX)

    def _publish_as(self, name: str) -> None:
        payload = f"{name} {len(self._published[name])}".encode()
        self._published[name].append(payload)
        self.tree.ask(name, PublishRequest("t", payload))

    def _check_delivered(self, reader: str) -> None:
        got = [message for message in self.tree.delivered[reader] if not message.payload.startswith(b"!")]
        for publisher, published in self._published.items():
            came = [message.payload for message in got if message.publisher == publisher]
            if sorted(came) != sorted(published):
                lost, more = len(set(published) - set(came)), len(came) - len(set(came))
                raise FindingError(
                    f"{reader} lacks {lost} publications of {publisher}, {more} came twice [{len(published)}]"
                )
            seqs = [m.seq for m in got if m.publisher == publisher and m.guarantee is not Guarantee.EVENTUAL]
            if seqs != sorted(seqs):
                raise FindingError(f"{reader} got publications of {publisher} out of order")
        spoofed = [m.publisher for m in self.tree.delivered[reader] if m.payload == b"!" and m.publisher in HONEST]
        if spoofed and self.role == "client":
            raise FindingError(f"{reader} got what the liar published as {spoofed[0]}")

    def _check_log(self) -> None:
        """The log that the liar keeps no replica of is the same at both, and has nothing twice."""
        one, other = (self.tree.stores.entries(name, LOGS[0]) for name in LOGS[0].replicas)
        common = min(len(one), len(other))
        if one[:common] != other[:common]:
            raise FindingError("replicas of a log differ")
        had = [(b.origin, seq) for entry in one if (b := entry.messages) for seq in range(b.first, b.last + 1)]
        if len(set(had)) < len(had):
            raise FindingError(f"a log has something twice [{len(had)}]")
        if self.role == "client":
            kept = {payload for entry in one if (b := entry.messages) for payload in unpack_payloads(b)}
            lost = [each for published in self._published.values() for each in published if each not in kept]
            if kept and lost:
                raise FindingError(f"a log lacks honest publications [{len(lost)}]")

    def _check_values(self) -> None:
        """Brokers that are at one place have the same last values."""
        one, other = (self.tree.honest_broker(name).parts.values.store for name in SERVED)
        if one.place == other.place and sorted(one.rows(), key=repr) != sorted(other.rows(), key=repr):
            raise FindingError("the last values of two brokers differ")

    def _check_safe(self, publisher: str) -> None:
        news = self.tree.news[publisher]
        made = {(one.stream, one.seq) for one in news if isinstance(one, Published)}
        for one in news:
            if isinstance(one, ReceiptTurned) and one.receipt >= ReceiptLevel.SAFE:
                made -= {(one.stream, seq) for seq in range(one.first, min(one.last, one.first + 100_000) + 1)}
        if made:
            raise FindingError(f"{len(made)} publications of {publisher} never turned safe")


def _told(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = last.filename.rpartition("/src/")[2] or last.filename
    return f"{type(error).__name__} at {where}:{last.lineno} ({last.name}): {error}"
