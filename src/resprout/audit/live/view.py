"""What all rules of the live judge need: the memory, who asks for what, names, and a place to say what is wrong."""

from collections.abc import Iterable

from resprout.audit.causal import Way
from resprout.audit.interest import TraceInterest
from resprout.audit.live.memory import KeptLife, KeptPublication, KeptSubscription, Memory
from resprout.audit.loss import is_owed
from resprout.audit.records import MessageId, Naming
from resprout.audit.subscriptions import NEVER
from resprout.audit.verdict import EXPLAINED_MAX, Anomaly
from resprout.trace import kinds


class LiveView:
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.interest = read_back(memory.subscriptions)
        memory.subscriptions = []
        self.found: list[Anomaly] = []
        """Not yet handed out: of each rule no more than a verdict would hold. The rest is counted."""
        self._waiting: dict[str, int] = {}
        """How many of each rule."""
        self._way: tuple[int, int, Way] | None = None
        """From the cause that was asked for last, up to the latest publication that there was then."""
        self.now_us = memory.watermark_us
        """The time of the row that is judged."""
        self.naming = self._names()

    def is_full(self, rule: str) -> bool:
        """Whether so many anomalies of the rule wait to be handed out that the rest is only counted."""
        return self._waiting.get(rule, 0) >= EXPLAINED_MAX

    def count_untold(self, rule: str) -> None:
        self.memory.found[rule] = self.memory.found.get(rule, 0) + 1

    def hand_out(self) -> list[Anomaly]:
        found, self.found = self.found, []
        self._waiting.clear()
        return found

    def between(self, cause: KeptPublication, number: int) -> list[KeptPublication] | None:
        """As `Way.between`; one search for each cause, as long as nobody asks for another one."""
        publications = self.memory.publications
        if self._way is None or self._way[0] != cause.number or self._way[1] < number:
            later = (p for p in publications.values() if p.number > cause.number and p.depends_on(cause))
            had = {life: row for life, (_, row, _) in cause.had.items()}
            way = Way(cause, had, later, lambda p: (p.previous, *p.given))
            self._way = (cause.number, self.memory.next_number - 1, way)
        steps = self._way[2].between(number)
        if steps is None or not publications.keys() >= set(steps):  # forgotten since it was asked for first
            return None
        return [publications[step] for step in steps]

    def tell(self, anomaly: Anomaly) -> None:
        rule = anomaly.rule
        self.count_untold(rule)
        if not self.is_full(rule):
            self._waiting[rule] = self._waiting.get(rule, 0) + 1
            self.found.append(anomaly)

    def count(self, what: str) -> None:
        self.memory.counts[what] = self.memory.counts.get(what, 0) + 1

    def name(self, id: MessageId) -> str:
        return self.naming.message(id)

    def knows_incarnation(self, publisher: str, incarnation: int) -> None:
        """From its second one on, a publisher's incarnation is part of the names."""
        known = self.memory.incarnations.setdefault(publisher, [])
        if incarnation not in known:
            known.append(incarnation)
            del known[:-2]
            self.naming = self._names()

    def life(self, number: int) -> KeptLife | None:
        return self.memory.lives.get(number)

    def id_of(self, number: int) -> MessageId:
        return self.memory.publications[number].id

    def life_of(self, number: int) -> KeptLife:
        return self.memory.lives[number]

    def place(self, life: int, number: int) -> tuple[int, int]:
        position, _, time_us = self.memory.publications[number].had[life]
        return position, time_us

    def owed(self, p: KeptPublication) -> bool:
        """As `audit.loss` would say if the run ended now."""
        lives, publisher = self.memory.lives, self.memory.lives.get(p.life)
        is_delivered = any((life := lives.get(number)) is not None and life.correct for number in p.had)
        return is_owed(p.refused, p.safe, is_delivered, p.failed, publisher is not None and publisher.correct)

    def _names(self) -> Naming:
        known = self.memory.incarnations.items()
        return Naming((publisher, incarnation, "", 0) for publisher, mine in known for incarnation in mine)


def kept(interest: TraceInterest) -> list[KeptSubscription]:
    """What clients ask for, to be written down."""
    return [
        KeptSubscription(s.life, one.filter, one.where, s.asked, s.confirmed, s.ending, s.repeats, one.confirmed_us)
        for one in interest.open_subscriptions()
        for s in (one.subscription,)
    ]


def read_back(subscriptions: Iterable[KeptSubscription]) -> TraceInterest:
    """Their steps once more: whoever has seen them is in the same state."""
    interest = TraceInterest()
    for one in subscriptions:
        steps = [(kinds.SUBSCRIBE, one.asked), *[(kinds.SUBSCRIBE, one.asked)] * one.repeats]
        steps += [(kinds.SUBSCRIBED, one.confirmed)] if one.confirmed != NEVER else []
        steps += [(kinds.UNSUBSCRIBE, one.ending)] if one.ending != NEVER else []
        for kind, row in steps:
            interest.record(one.life, kind, row, one.confirmed_us, one.filter, one.where)
    return interest
