"""Works of several teams in turns: all of them stand while any of them works, and nobody is started or stopped."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final, TypeVar

import msgspec

from benchmarks.net.peers import OURS, left_out
from resprout.cli.load.team import LoadError, Team

T = TypeVar("T")

FIRST_COUNT: Final = 500
COUNT_MIN: Final = 200
COUNT_MAX: Final = 2_000_000


class Effort(msgspec.Struct, frozen=True):
    """How much is done."""

    rounds: int
    seconds: float
    """Of one round of one of them, about."""


FULL: Final = Effort(rounds=7, seconds=1.0)
QUICK: Final = Effort(rounds=3, seconds=0.3)

Once = Callable[[Team, int, int], Awaitable[T]]
"""A team, how many messages, and the variant of the work."""
Try = Callable[[int], Awaitable[T]]
Count = Callable[[Effort, Try[T]], Awaitable[int]]
"""How many messages a round takes, found by trying."""


async def in_turns(
    effort: Effort,
    teams: Mapping[str, Team],
    variants: Sequence[int],
    once: Once[T],
    count: Count[T],
    ours_alone: Sequence[int] = (),
) -> dict[int, dict[str, list[T]]]:
    """What each round came to, by variant and team; whoever did not manage every round of a variant is not there."""
    everything = (*variants, *ours_alone)
    results: dict[int, dict[str, list[T]]] = {variant: {name: [] for name in teams} for variant in everything}
    counts: dict[tuple[str, int], int] = {}

    async def attempt(name: str, work: Awaitable[None]) -> None:
        try:
            await work
        except LoadError as error:
            if name == OURS:
                raise
            left_out(name, str(error))
            for variant in everything:
                counts.pop((name, variant), None)

    async def prepare(name: str, stack: AsyncExitStack) -> None:
        team = teams[name]
        await stack.enter_async_context(team)
        for variant in everything if name == OURS else variants:
            counts[name, variant] = await count(effort, lambda some, kind=variant: once(team, some, kind))  # type: ignore[misc]

    async def work(name: str, variant: int) -> None:
        results[variant][name].append(await once(teams[name], counts[name, variant], variant))

    async with AsyncExitStack() as stack:
        for name in teams:
            await attempt(name, prepare(name, stack))
        for _ in range(effort.rounds):
            for variant in everything:
                for name in teams:
                    if (name, variant) in counts:
                        await attempt(name, work(name, variant))
    return {
        variant: {name: rounds for name, rounds in found.items() if len(rounds) == effort.rounds}
        for variant, found in results.items()
    }


def suitable(rate: Callable[[T], float], least: int = COUNT_MIN) -> Count[T]:
    """As many as a round of the wanted length takes. Found in steps, as the first messages are slow; they also warm
    everything up. `least`: where many publish, one or two messages of each are no stream, and found to be slow they
    would stay that few."""

    async def count(effort: Effort, attempt: Try[T]) -> int:
        some = max(FIRST_COUNT, least)
        for share in (0.2, 0.5, 1.0):
            found = rate(await attempt(some)) * effort.seconds * share
            some = max(least, min(COUNT_MAX, round(found)))
        return some

    return count
