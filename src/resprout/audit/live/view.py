"""What all rules of the live judge need: the memory, who asks for what, names, and a place to say what is wrong."""

from resprout.audit.live.interest import LiveInterest
from resprout.audit.live.memory import KeptLife, KeptPublication, Memory
from resprout.audit.live.ways import LiveWay
from resprout.audit.naming import MessageId, Naming
from resprout.audit.verdict import EXPLAINED_MAX, Anomaly


class LiveView:
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.interest = LiveInterest(memory.subscriptions)
        memory.subscriptions = []
        self.found: list[Anomaly] = []
        """Not yet handed out: of each rule no more than a verdict would hold. The rest is counted."""
        self._waiting: dict[str, int] = {}
        """How many of each rule."""
        self._way: LiveWay | None = None
        self.now_us = memory.watermark_us
        """The time of the row that is judged."""
        self._naming = self._names()

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
        """As `ways.Way.between`; one search for each cause, as long as nobody asks for another one."""
        way = self._way
        if way is None or way.cause != cause.number or way.end < number:
            way = self._way = LiveWay(self.memory.publications, cause, self.memory.next_number - 1)
        return way.between(number)

    def tell(self, rule: str, time_us: int, subscriber: str, messages: tuple[str, ...], text: str) -> None:
        self.count_untold(rule)
        if not self.is_full(rule):
            self._waiting[rule] = self._waiting.get(rule, 0) + 1
            self.found.append(Anomaly(rule, time_us, subscriber, messages, text))

    def count(self, what: str) -> None:
        self.memory.counts[what] = self.memory.counts.get(what, 0) + 1

    def name(self, id: MessageId) -> str:
        return self._naming.message(id)

    def knows_incarnation(self, publisher: str, incarnation: int) -> None:
        """From its second one on, a publisher's incarnation is part of the names."""
        known = self.memory.incarnations.setdefault(publisher, [])
        if incarnation not in known:
            known.append(incarnation)
            del known[:-2]
            self._naming = self._names()

    def life(self, number: int) -> KeptLife | None:
        return self.memory.lives.get(number)

    def owed(self, p: KeptPublication) -> bool:
        """As `audit.owed` would say if the run ended now."""
        if p.refused:
            return False
        lives = self.memory.lives
        if p.safe or any((life := lives.get(number)) is not None and life.correct for number in p.had):
            return True
        publisher = lives.get(p.life)
        return publisher is not None and publisher.correct and not p.failed

    def _names(self) -> Naming:
        known = self.memory.incarnations.items()
        return Naming((publisher, incarnation, "", 0) for publisher, mine in known for incarnation in mine)
