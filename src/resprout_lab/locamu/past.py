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

The identifiers of a message: the numbers that the last brokers on its path gave it, one for each target.

Nobody numbers a message for the whole network. Each broker that passes it on counts it for everybody within f + 1 hops
ahead, and these numbers travel along for 2f + 1 hops. So two copies that came on different ways share some of them, as
long as both ways were *safe*: then they are known to be one message (sections 3.4 to 3.6 of the thesis).
"""

from collections.abc import Collection, Container, Iterable, Iterator
from itertools import islice

from resprout.core.seen import Ranges
from resprout_lab.blocks.causal_order import Changes

CountedPath = dict[str, dict[str, int]]
"""The brokers on the path, the oldest first, with their numbers by target; an empty entry was passed over."""
Identifier = tuple[str, str, int]
"""(who counted, for whom, the number)."""


def read_path(identifiers: Changes) -> CountedPath:
    return {name: dict(numbers) for name, numbers in identifiers}


def as_sent(path: CountedPath, known: Collection[str]) -> Changes:
    """Of those only whom the receiver knows as well."""
    return tuple(
        [
            (name, tuple([(target, number) for target, number in numbers.items() if target in known]))
            for name, numbers in path.items()
            if name in known
        ]
    )


def each(path: CountedPath) -> Iterator[Identifier]:
    for name, numbers in path.items():
        for target, number in numbers.items():
            yield name, target, number


def leading_to(
    path: CountedPath, name: str, numbers: dict[str, int], passed_over: tuple[str, ...], faults: int
) -> CountedPath:
    """The path when this broker sends it on over the heads of others: the last 2f + 1 of it."""
    longer: CountedPath = {**path, name: numbers, **{one: {} for one in passed_over}}
    return dict(islice(longer.items(), max(0, len(longer) - 2 * faults - 1), None))


def cut_after(path: CountedPath, name: str) -> CountedPath:
    """As it was when this one of them sent it."""
    names = list(path)
    return {one: path[one] for one in names[: names.index(name) + 1]}


def is_safe(path: CountedPath, faults: int) -> bool:
    """At most f of the last 2f + 1 were passed over. On any other path two copies may have nothing in common."""
    last = islice(path.values(), max(0, len(path) - 2 * faults - 1), None)
    return sum(not numbers for numbers in last) <= faults


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
