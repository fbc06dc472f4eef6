"""The identifiers of a message: the numbers that the last brokers on its path gave it, one for each target.

Nobody numbers a message for the whole network. Each broker that passes it on counts it for everybody within f + 1 hops
ahead, and these numbers travel along for 2f + 1 hops. So two copies that came on different ways share some of them, as
long as both ways were *safe*: then they are known to be one message (sections 3.4 to 3.6 of the thesis).
"""

from collections.abc import Collection, Iterator
from itertools import islice

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
