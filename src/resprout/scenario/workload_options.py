"""Options that one kind of workload understands beyond the common ones of `WorkloadSpec`.

The one place that lists them: the loader takes names, types and defaults from these structs and the bounds from their
annotations, so an option that is not here is an error. In TOML they stand in `[[workload]]` next to the common keys.
"""

from typing import Annotated

import msgspec

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A chance between 0 and 1."""


class BankOptions(msgspec.Struct, frozen=True):
    """A replicated bank: each topic is a bank, each key an account, each client a replica and a teller."""

    initial: Annotated[int, msgspec.Meta(ge=0, le=10**12)] = 10_000
    """Balance of every account before anything happens, in cents."""
    amount_max: Annotated[int, msgspec.Meta(ge=1, le=10**12)] = 5_000
    """Deposits, withdrawals and transfers move 1 to this many cents; above `initial`, many withdrawals are refused."""
    interest_max: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 500
    """Interest credits 1 to this many hundredths of a percent of the balance, rounded down."""


class RandomOptions(msgspec.Struct, frozen=True):
    """Publications without a meaning: every choice is drawn from the seed."""

    keys_max: Annotated[int, msgspec.Meta(ge=0, le=64)] = 2
    """Each publication names 0 to this many keys (a `total` one at least 1, unless the workload has no keys)."""
    foreign_keys: Share = 0.0
    """Chance that a key belongs to another topic of the workload (`other/topic#key`)."""
    attributes: bool = True
    """Whether publications carry `amount` (0 to 999), `kind` (a, b or c), `ratio` (0.0 to 1.0) and `urgent`."""
    payload_min: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] | None = None
    """Payloads are this many up to `payload` bytes; absent: all exactly `payload`."""
    burst: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    """Publications made at once, all on one topic with the same guarantee and keys; `operations` counts every one."""
    subscribed: bool = False
    """Each client publishes only to topics that it subscribes to itself; without `topics`, to all of those."""
    churn: Share = 0.0
    """Chance, before each publication, that the client begins or ends one extra subscription."""
    churn_where: Share = 0.0
    """Chance that such an extra subscription has a content filter."""


class ChatterOptions(msgspec.Struct, frozen=True):
    """Conversations: a delivery provokes an answer on another topic, down to a depth that the message carries."""

    depth: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 4
    """Answers to answers: a message carries how many are left, and at 0 nobody answers."""
    answer: Share = 0.5
    """Chance that a client answers a delivery; a level has this times the subscribers as many messages as the last."""
    answers_max: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1000
    """No client answers more often than this in one run: the bound that holds whatever the chances are."""
    think_max_us: Annotated[int, msgspec.Meta(ge=0, le=3_600_000_000)] = 0
    """An answer is made at once, or after a pause of up to this long. In TOML: `think_max = "5ms"`."""


WorkloadOptions = BankOptions | RandomOptions | ChatterOptions

OPTIONS: dict[str, type[WorkloadOptions]] = {
    "bank": BankOptions,
    "random": RandomOptions,
    "chatter": ChatterOptions,
}
"""By kind of workload."""
