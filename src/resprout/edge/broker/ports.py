"""What the sessions of clients ask of a stack, and nothing else: its order, its log and its routing are its own.

A stack keeps bundles as *items* of its own kind and hands them in; the sessions hand them back and look only at what
stands here. What a stack does not offer is left out: a part that it does not make (`ghosts`), and a
message that is not in its table of handlers is not for a client to say.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from resprout.core.bundle import Bundle, Origin
from resprout.core.message_fields import Reached
from resprout.filters.predicate import Predicate

Picks = dict[str, tuple[int, ...]]
"""Where a content filter picked only some messages of a bundle for a reader: their offsets, by the reader's name."""


class HeldBundle(Protocol):
    """A bundle at this broker. Attributes rather than calls: they are read for every bundle."""

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
        """Its publisher waits for `delivered`: everything is told at once, all the way."""

    @property
    def awaits(self) -> int:
        """Which receipts its publisher waits for besides, if it is served here."""

    @property
    def place(self) -> int:
        """Its place in the one order of totals; -1 for others."""

    @property
    def shown(self) -> bool:
        """It is safe, and its readers have it or it waits for them."""

    @property
    def undone(self) -> int:
        """How many are still owed it, anywhere; 0 when it is delivered."""


class RetentionPort(Protocol):
    """Keeps items for as long as a reader has not taken them."""

    @property
    def next_no(self) -> int:
        """The place of the next item."""

    @property
    def first_held_back(self) -> int | None:
        """The lowest place of what is not shown."""

    def show(self, item: Any) -> None:
        """It is shown now; each of its readers will take it."""

    def took(self, item: Any) -> bool:
        """One reader has it, or is gone. True when nobody is owed it any more, and the stack did not notice itself."""

    def add_reader(self, item: Any, session: Any) -> None:
        """One more than was known. Where it was not shown yet it will be shown to this one, too."""


class SpillPatience(Protocol):
    """Told of items that a reader lets wait on disk."""

    def be_patient(self, item: Any) -> None:
        """It was shown to one, which has not taken it."""

    def took_patiently(self, item: Any) -> None:
        """Such a one takes it now, or is gone."""


class Confirmation(Protocol):
    """Somebody's wish is known everywhere: nothing that matches is missed from now on."""

    @property
    def direction(self) -> str:
        """Whose wish it is: the name of a client here, or of a reader inside the broker."""

    @property
    def predicate(self) -> Predicate: ...
    @property
    def base(self) -> dict[Origin, Reached]:
        """What had passed before: of these origins, nothing up to here is owed."""


class SubscriptionPort(Protocol):
    """Who wants what. Every method tells whose wishes became confirmed by it."""

    def want(self, client: str, predicate: Predicate, confirmed: bool = False) -> Iterable[Confirmation]:
        """It must not want the same already. `confirmed`: nothing is missed, and nobody waits to hear so."""

    def drop(self, client: str, predicate: Predicate) -> Iterable[Confirmation]: ...
    def drop_all(self, client: str) -> Iterable[Confirmation]: ...
