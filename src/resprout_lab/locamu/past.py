"""What one broker has processed and depends on: the matrices *P* and *R* of the thesis (section 3.8.2).

*P*[k][l] is the number of the last message of k to l that is in the causal past of this broker; a message depends on
what was in it when it was processed. *R*[k][l] are the identifiers that were seen here: a message of which any is known
is a repeat. An entry of P means that one message, not all before it: two brokers that were passed over at different
times may have numbered the same messages in different orders, and those before it are named by others.

*What is told of one's own numbers* (L6). To a branch, this broker names as dependencies those of its own numbers that
it gave to messages which went into that branch, too. Whoever depends on a number then has the message itself, and can
pass it on if this broker does not return. A message that came from the branch has numbers that those there gave it, and
whatever follows it depends on these. A message of a group that has no member in the branch is named if nobody before
this broker numbered it: what depends on it waits for this broker if it is down, because nobody else may have it.
"""

from collections.abc import Container, Iterable

from resprout.core.seen import Ranges
from resprout_lab.blocks.causal_order import Changes
from resprout_lab.locamu.identifiers import CountedPath, Identifier, each

CountedPair = tuple[str, str]
"""(who counts, for whom)."""


class Past:
    def __init__(self, name: str) -> None:
        self._name = name
        self.depends: dict[CountedPair, int] = {}
        """*P*, but for the numbers of this broker."""
        self.counts: dict[str, int] = {}
        """The last number of this broker to each target."""
        self.toward: dict[str, dict[str, int]] = {}
        """By branch: the same, of the messages only that went into it. The values are never changed."""
        self.received: dict[CountedPair, Ranges] = {}
        """*R*."""

    # -- questions -----------------------------------------------------------------------------------------------------

    def upto(self, sender: str) -> int:
        """All of its messages to this broker up to here were processed."""
        ranges = self.received.get((sender, self._name))
        return 0 if ranges is None else ranges.upto

    def has_received(self, sender: str, number: int) -> bool:
        """This message of it to this broker was processed."""
        ranges = self.received.get((sender, self._name))
        return ranges is not None and number in ranges

    def knows_any(self, path: CountedPath) -> bool:
        """It is a copy of what was processed before."""
        return any(number in ranges for one, to, number in each(path) if (ranges := self.received.get((one, to))))

    # -- changes -------------------------------------------------------------------------------------------------------

    def depend_on(self, dependencies: Changes, known: Container[str]) -> None:
        """What a message depends on, whatever is processed after it does."""
        depends = self.depends
        for sender, entries in dependencies:
            if sender != self._name and sender in known:
                for target, number in entries:
                    if target in known and number > depends.get((sender, target), 0):
                        depends[sender, target] = number

    def add(self, identifiers: Iterable[Identifier]) -> None:
        for sender, target, number in identifiers:
            pair = (sender, target)
            self.ranges(pair).add(number, number)
            if sender != self._name and number > self.depends.get(pair, 0):
                self.depends[pair] = number

    def number(self, targets: Iterable[str]) -> dict[str, int]:
        """The next number for each."""
        return {target: self.counts.get(target, 0) + 1 for target in targets}

    def sent(self, numbers: dict[str, int], named: dict[str, dict[str, int]]) -> None:
        """A message has these numbers. `named`: by branch, those on which messages into it depend from now on."""
        self.counts.update(numbers)
        self.add((self._name, target, number) for target, number in numbers.items())
        for branch, own in named.items():
            if own:
                self.toward[branch] = {**self.toward.get(branch, {}), **own}

    def skip(self, sender: str, target: str, upto: int) -> None:
        """Nothing up to here will come that was not here."""
        self.ranges((sender, target)).add(1, upto)

    def ranges(self, pair: CountedPair) -> Ranges:
        """What was received of one to the other."""
        if (ranges := self.received.get(pair)) is None:
            ranges = self.received[pair] = Ranges()
        return ranges
