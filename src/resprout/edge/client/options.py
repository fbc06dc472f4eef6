"""What can be set about a client, with the trade-off of each, and its timers."""

import msgspec

from resprout.core import limits
from resprout.core.contract import Timer


class ClientOptions(msgspec.Struct, frozen=True):
    queue_bytes_max: int = 64 << 20
    """Publications that wait for the broker or are not yet safe; beyond that more are refused, which is definite."""
    queue_bytes_high: int = 1 << 20
    """With so much waiting to leave a publisher is asked to pause, until half of it has left."""
    unsafe_bytes_high: int = 32 << 20
    """The same for what has left and is kept because it is not safe yet. A publisher reaches at most this much per
    round trip to the second broker that has it."""
    unsafe_bundles_high: int = 1 << 20
    """The same for bundles. Messages of other clients of the broker wait behind them on its links to other brokers."""
    bundle_max: int = limits.BUNDLE_MESSAGES
    """Publications that leave as one bundle. Fewer: each pays more of what a bundle costs on its way; 1 is for a
    comparison with systems that bundle nothing."""
    early_max: int = 10_000
    """Publications asked for before a broker was first reached."""
    take_delay_us: int = 20_000
    """How long an acknowledgement of deliveries may wait for company, unless a publisher waits for it."""
    take_deliveries: int = 64
    """Deliveries after which the acknowledgement does not wait."""
    takes_at_once: bool = True
    """A delivery counts as taken when it is handed up. Otherwise the application says so with `TakeRequest`."""
    returns: bool = False
    """An earlier process of the same life may have published. A broker is told that the client was there before, so it
    is surprised neither by what it is told again, nor by what comes of it from elsewhere; and what it tells of numbers
    that this process has not come to yet is true of them when it has. Each publication is a bundle of its own: brokers
    take bundles whole, and what leaves together depends on timing, which is different in the next process."""
    same_bundles: bool = False
    """With an `epoch`: the program repeats its calls of `publish_bundle` with the same boundaries, so these messages
    may share a bundle. Used only where brokers split bundles (`Serving.splits`)."""
    tells_connection: bool = False
    """The application is told when the connection to its broker breaks and when it is back (`ConnectionTurned`)."""
    untaken_bytes_max: int = 32 << 20
    """What may wait for the application before the broker is granted no more; again from half of it on."""
    publish_times: bool = False
    """Each publication says when it was made (`Message.published_at`); those that are delayed or expire always do. It
    costs about 30 bytes for each message."""
    epoch_us: int | None = None
    """Time 0 of the machine in microseconds since 1970. Its clock holds back delayed messages, and drops those that
    have expired. None: it does neither."""
    patience_us: int = 3_000_000
    """How long a broker may be silent before others are asked; one whose host says that it is gone is not waited for.
    Shorter: less waiting for the dead, more needless questions about those who only paused."""


class TellTaken(Timer, frozen=True):
    """When to tell the broker which deliveries the application has."""


class DelayOver(Timer, frozen=True):
    """When to deliver messages whose time has come."""


class AskOthers(Timer, frozen=True):
    """When to turn to others, because the broker is still silent."""


class AnswerDue(Timer, frozen=True):
    """When to ask the next one, because this one does not answer."""

    broker: str


class AskAgain(Timer, frozen=True):
    """When to begin another round."""

    brokers: tuple[str, ...]
    """Whom it will ask; a driver that knows all of them to be gone need not wait for it."""
