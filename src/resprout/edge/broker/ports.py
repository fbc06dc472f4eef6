"""What the sessions of clients ask of a stack, and nothing else: its order, its log and its routing are its own.

A stack keeps bundles as *items* of its own kind and hands them in; the sessions hand them back and look only at what
stands here. What a stack does not offer is left out: a part that it does not make (`ghosts`), and a
message that is not in its table of handlers is not for a client to say.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from resprout.core.bundle import Bundle, Origin
from resprout.core.message_fields import Reached
from resprout.filters.predicate import Predicate

Picks = dict[str, tuple[int, ...]]
"""Where a content filter picked only some messages of a bundle for a reader: their offsets, by the reader's name."""


class LogAccess:
    """Callbacks that a broker needs to read logs for clients. Its driver sets them."""

    def __init__(self) -> None:
        self.may_read: Callable[[str, str], bool] = lambda client, topic_filter: True
        """Whether a client may subscribe to a filter, and so read the messages that match."""
        self.unread: Callable[[str], int] = lambda client: 0
        """Return the number of bytes that were sent to a client and not acknowledged."""


class ValueOwners:
    """Who pays for the last values of a client, at every broker alike. The driver of a broker with rules sets it."""

    def __init__(self) -> None:
        self.owner_of: Callable[[str], str] = lambda writer: writer
        """Return the identity that a client of this name has."""
        self.version: Callable[[], int] = lambda: 0
        """Return another number when `owner_of` has changed."""


class HeldBundle(Protocol):
    """An *item*: a bundle at this broker, as sessions see it. Attributes rather than calls, because they are read
    for every bundle. In the default stack it is an `Entry` of the log."""

    client: Any
    """The session of the client that published it, if that is served here."""
    readers: tuple[Any, ...]
    """The sessions that it will be shown to."""
    picks: Picks | None

    @property
    def no(self) -> int:
        """Its place in the broker's order."""

    @property
    def bundle(self) -> Bundle | None:
        """Never None while a reader has not taken it."""

    @property
    def stream(self) -> str: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def hops(self) -> int: ...
    @property
    def prompt(self) -> bool:
        """Whether its publisher waits for `delivered`: it is reported at once on every hop."""

    @property
    def awaits(self) -> int:
        """The other receipts that its publisher waits for, if that is served here."""

    @property
    def place(self) -> int:
        """Its place in the total order; -1 for others."""

    @property
    def shown(self) -> bool:
        """Whether it is safe and was given to its readers."""

    @property
    def undone(self) -> int:
        """How many readers and directions are still owed it; 0 when it is delivered."""


class RetentionPort(Protocol):
    """Keeps items until every reader has taken them. In the default stack this is the log."""

    @property
    def next_no(self) -> int:
        """The place of the next item."""

    @property
    def first_held_back(self) -> int | None:
        """The lowest place of what is not shown."""

    def show(self, item: Any) -> None:
        """Mark an item as shown; each of its readers will take it."""

    def took(self, item: Any) -> bool:
        """Count a reader that has taken an item, or is gone. True when nobody is owed it any more, and the stack did
        not notice itself."""

    def add_reader(self, item: Any, session: Any) -> None:
        """Count one more reader. If the item is not shown yet, it will be shown to this one too."""


class SpillPatience(Protocol):
    """Told of items that a reader lets wait on disk."""

    def be_patient(self, item: Any) -> None:
        """It was shown to one, which has not taken it."""

    def took_patiently(self, item: Any) -> None:
        """Such a one takes it now, or is gone."""


class Confirmation(Protocol):
    """A confirmed wish: every broker knows it, so nothing that matches is missed from now on."""

    @property
    def direction(self) -> str:
        """The client here, or reader inside the broker, whose wish it is."""

    @property
    def predicate(self) -> Predicate: ...
    @property
    def base(self) -> dict[Origin, Reached]:
        """How far origins had come before: nothing up to there is owed."""


class SubscriptionPort(Protocol):
    """Who wants what. Every method returns the wishes that became confirmed by it."""

    def want(self, client: str, predicate: Predicate, confirmed: bool = False) -> Iterable[Confirmation]:
        """Add a wish that the client does not have yet. `confirmed`: nothing is missed, and nobody waits for the
        confirmation."""

    def drop(self, client: str, predicate: Predicate) -> Iterable[Confirmation]: ...
    def drop_all(self, client: str) -> Iterable[Confirmation]: ...
