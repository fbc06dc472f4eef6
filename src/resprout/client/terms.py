"""Terms of subscriptions, as a program gives them: what happens when a subscriber is slow, and what a durable
subscription is."""

from collections.abc import Mapping
from typing import Final, Literal

from resprout.client.arguments import check_count, check_filter_and_where, check_word, wrong
from resprout.client.redelivery import Redelivery, retry_terms
from resprout.core.errors import UnsupportedSubscriptionError, UsageError
from resprout.core.limits import check_name
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.durable_messages import Terms, WhenFull
from resprout.edge.messages import Extra, Serving

WhenFullWord = Literal["block", "drop_oldest", "disconnect", "spill"]
WHEN_FULL: Final[Mapping[str, WhenFull]] = {
    "block": WhenFull.BLOCK,
    "drop_oldest": WhenFull.DROP_OLDEST,
    "disconnect": WhenFull.DISCONNECT,
    "spill": WhenFull.SPILL,
}
PLAIN_POLICIES: Final = ("disconnect", "drop_oldest", "block")
DURABLE_POLICIES: Final = ("block", "drop_oldest", "spill")
MAX_PENDING: Final = 10_000
"""Messages that may wait where the oldest are dropped, unless told otherwise."""


def read_terms(
    filter: str,
    where: str | None,
    durable: str | None,
    group: str | None,
    when_full: str | None,
    max_pending: int | None,
    redelivery: Redelivery | None = None,
) -> tuple[str, Terms]:
    """Return the name of a durable subscription, and its terms. UsageError for a wrong argument."""
    check_filter_and_where(filter, where)
    if durable is not None:
        check_name(durable, "durable: name of a durable subscription")
    if group is not None:
        check_name(group, "group: name of a durable subscription")
    if durable is not None and group is not None and durable != group:
        raise UsageError(f"durable={durable!r} and group={group!r}: a group is named once, with group=")
    name = durable or group or ""
    policy = WHEN_FULL[check_word("block" if when_full is None else when_full, "when_full", DURABLE_POLICIES)]
    drops = policy is WhenFull.DROP_OLDEST
    if max_pending is not None:
        check_count(max_pending, "max_pending", 1, NUMBER_MAX)
        if not drops:
            raise UsageError(f"max_pending={max_pending} is for when_full='drop_oldest'")
    pending = (max_pending or MAX_PENDING) if drops else 0
    return name, Terms(filter, where, group is not None, policy, pending, retry_terms(redelivery, name))


def read_policy(when_full: str) -> WhenFull:
    """Return the policy of a plain subscription. UsageError for one that it cannot have."""
    if when_full == "spill":
        raise UsageError("when_full='spill' is for durable subscriptions: give durable=NAME, or use another policy")
    return WHEN_FULL[check_word(when_full, "when_full", PLAIN_POLICIES)]


def check_durable_only(arguments: Mapping[str, object]) -> None:
    """UsageError for arguments of a plain subscription that only a durable one has."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise wrong(name, value, "is for durable subscriptions: give durable=NAME or group=NAME as well")


def check_offered_here(serving: Serving | None) -> None:
    """UnsupportedSubscriptionError where brokers keep none."""
    if serving is None or Extra.DURABLE not in serving.extras:
        stack = f"the stack {serving.stack!r}" if serving is not None else "the stack"
        raise UnsupportedSubscriptionError(f"{stack} does not offer durable subscriptions; 'resprout' does")
