"""Three kinds of trouble, kept apart.

Our own bug is an AssertionError and may stop the process. A peer's fault is a `PeerError`: the link is closed with a
reason and nothing else suffers. The caller's fault is a `UsageError`: one clear line, and nothing was done.
"""

from resprout.core.escaping import escape


class ResproutError(Exception):
    """Base of everything this package raises on purpose."""

    def __str__(self) -> str:
        """The text, escaped: a reason may come from a peer, and a traceback shows it as it is."""
        return escape(super().__str__(), keep="\t\n")


class PeerError(ResproutError):
    """A peer broke the protocol. Whoever catches it closes that link and says why."""


class BoundError(PeerError):
    """A peer stated a number beyond what it can know of. A client that does is told so, and does not come again."""


class WireError(PeerError):
    """Bytes that are not a message: the only exception that decoding raises."""


class UsageError(ResproutError, ValueError):
    """The caller asked for something that cannot be; the text says what and where."""


class StoreError(ResproutError):
    """What this process put aside cannot be brought back: its life is over, and others have what it had."""


class NameRefusedError(UsageError):
    """A name, topic, key or attribute breaks the limits of `core.limits`."""


class PayloadRefusedError(UsageError):
    """A payload is not bytes, or too large."""


class UnsupportedGuaranteeError(UsageError):
    """The stack that runs here does not offer this guarantee."""


class UnsupportedSubscriptionError(UsageError):
    """The stack that runs here does not offer this kind of subscription."""


class UnsupportedReceiptError(UsageError):
    """The stack that runs here does not give this receipt: to wait for it would be to wait for ever."""
