"""What a stack says of itself, in words: what it guarantees, and which faults it survives with all of that kept."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from resprout.core.errors import UsageError
from resprout.core.promises import OrderScope
from resprout.pipeline.report.facts import RunFacts
from resprout.pipeline.report.known import known_stack
from resprout.stacks.stack import Stack
from resprout.stacks.survival import Survival

UNKNOWN = "unknown: the stack is not installed here, or does not take these options"


class Promised(msgspec.Struct, frozen=True):
    """By one stack with some options."""

    guarantees: str
    survives: str
    survival: Survival | None
    """None when nobody can say."""

    def covers(self, facts: RunFacts) -> bool:
        """Whether no more brokers fell in this run than the stack says that it survives, and those returned that have
        to, or may. How they stood to each other is not looked at: it is for runs in which one falls, or none."""
        said, fell, gone = self.survival, facts.run.faults, facts.run.gone
        if said is None or fell > said.faults:
            return False
        return said.recovers if fell > gone else not (gone and said.all_return)


def promised_by(facts: RunFacts) -> Promised:
    stack = known_stack(facts.stack)
    options = None if stack is None else _options(stack, facts.run.options)
    if stack is None or options is None:
        return Promised(UNKNOWN, UNKNOWN, None)
    survival = stack.survives(options)
    return Promised(guarantees_of(stack, options), survives_in_words(survival), survival)


def _options(stack: Stack[Any], told: Mapping[str, str]) -> Any:
    try:
        return stack.parse_options({name: msgspec.json.decode(text) for name, text in told.items()})
    except (UsageError, msgspec.MsgspecError):
        return None


def guarantees_of(stack: Stack[Any], options: Any) -> str:
    promise = stack.promise()
    offered = [guarantee.label for guarantee in stack.offered(options)]
    scope = " within each topic" if promise.order is OrderScope.EACH_TOPIC and len(offered) > 1 else ""
    chance = "with a probability" if promise.is_probable else "for certain"
    return f"{', '.join(offered)}{scope}, {chance}; receipts: {', '.join(promise.receipts)}"


def survives_in_words(survival: Survival) -> str:
    if not survival.faults:
        more = "; ".join(_more(survival))
        return f"pauses and connections that break, no dead broker{'; ' if more else ''}{more}"
    return "; ".join((_dead(survival), *_more(survival)))


def _dead(survival: Survival) -> str:
    many = survival.faults
    if survival.each_site:
        place = "in each site"
    elif survival.span is not None:
        place = f"on any path of {survival.span}"
    else:
        place = "in the network"
    again = ", again and again" if survival.again else ""
    return f"{many} dead {'broker' if many == 1 else 'brokers'} {place} at once{again}"


def _more(survival: Survival) -> Iterator[str]:
    suffered = {
        "silent hosts": survival.silent_hosts,
        "frozen brokers": survival.freezes,
        "brokers cut off": survival.cuts,
        "partitions": survival.partitions,
        "newcomers": survival.joins,
        "brokers that leave": survival.leaves,
    }
    if any(suffered.values()):
        yield ", ".join(word for word, is_suffered in suffered.items() if is_suffered)
    if survival.least:
        yield f"with {survival.least} brokers or more"
    if survival.majority:
        who = "nearest to the root" if survival.span is not None else "whom others join by"
        yield f"most of those {who} must be left"
    if survival.all_return:
        yield "every dead broker must return"
    if survival.recovers:
        ways = {"with its disk": survival.recovers_with_disk, "without": survival.recovers_without_disk}
        early = "" if survival.returns_early else ", when its repair is over"
        yield f"a dead broker may return {' or '.join(word for word, may in ways.items() if may)}{early}"
