"""What the brokers of a site agree on: the commands in the log of the site, as they stand there.

Each has a `key`: a broker proposes a command again until it finds that key decided. Repeats are harmless, whoever
proposes them: `state` tells them by numbers.
"""

from typing import Any, Final

import msgspec

from resprout.core.bundle import Bundle, from_fields, to_fields
from resprout.core.errors import PeerError

CommandKey = tuple[Any, ...]


class SiteBroker(msgspec.Struct, frozen=True, array_like=True):
    """One life of a broker of a site, and where it listens."""

    name: str
    incarnation: int
    """0: none was seated yet."""
    address: str = ""
    birth: int = 0
    """The life in which it became the member of the log that it is; 0: it is one of the first members."""

    @property
    def life(self) -> str:
        return life_of(self.name, self.incarnation)

    @property
    def member(self) -> str:
        """Who it is in the log of the site."""
        return life_of(self.name, self.birth)


class SiteConfig(msgspec.Struct, frozen=True):
    """One site, as the configuration has it: its brokers, all of life 0, and the site above, if there is one."""

    site: str
    brokers: tuple[SiteBroker, ...]
    parent: str = ""
    above: tuple[SiteBroker, ...] = ()


class SiteWish(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Canonical, so that equal ones are equal."""

    filter: str
    where: str | None = None


# -- what goes from site to site ---------------------------------------------------------------------------------------


class _Freight(msgspec.Struct, frozen=True, array_like=True):
    """In commands it has a tag; between sites each is a message of its own (`messages`)."""


class Conveyed(_Freight, frozen=True, tag=1):
    """A publication. `tseq`: its place in the one order; -1 while it has none."""

    bundle: Bundle
    hops: int
    tseq: int


class Wanted(_Freight, frozen=True, tag=2):
    """Send what matches. Its number on the link is the name of the wish from then on."""

    wish: SiteWish


class Unwanted(_Freight, frozen=True, tag=3):
    ask: int


class Noted(_Freight, frozen=True, tag=4):
    """The wish is known here, and wherever else it must be."""

    ask: int


Freight = Conveyed | Wanted | Unwanted | Noted


class Shipment(msgspec.Struct, frozen=True, array_like=True):
    """What is to be at a neighbouring site next, after everything up to `previous`: numbers may leave others out."""

    number: int
    previous: int
    freight: Freight


# -- commands ----------------------------------------------------------------------------------------------------------


class _Command(msgspec.Struct, frozen=True, array_like=True):
    """As it stands in the log; its tag is known there only."""


class Seating(_Command, frozen=True, tag=2):
    """A broker of the site has begun another life."""

    broker: SiteBroker


class TakingLead(_Command, frozen=True, tag=3):
    """This life leads the site. Its slot is the *term*. `gateways`: which life speaks with which site, if another."""

    life: str
    gateways: tuple[tuple[str, str], ...] = ()


class Meeting(_Command, frozen=True, tag=4):
    """A neighbouring site, or news of its brokers. `upto`: of the site above, what it had sent when it said so."""

    site: str
    brokers: tuple[SiteBroker, ...]
    upto: int = 0


class Entering(_Command, frozen=True, tag=5):
    """A client of this site published it. `begins`: it comes from another site, where it published what was before."""

    bundle: Bundle
    begins: bool = False


class Bringing(_Command, frozen=True, tag=6):
    """A neighbouring site sent it."""

    site: str
    shipment: Shipment


class Keeping(_Command, frozen=True, tag=7):
    """A neighbouring site has everything up to this number: the watermark of the link."""

    site: str
    number: int


class Wishing(_Command, frozen=True, tag=8):
    """What the clients of one broker want, together, has changed."""

    life: str
    no: int
    wish: SiteWish
    wanted: bool


class Releasing(_Command, frozen=True, tag=9):
    """The clients of one broker have, or are not owed, everything up to this position; `given_up`: it keeps nothing for
    these any more."""

    life: str
    no: int
    position: int
    given_up: tuple[str, ...] = ()


class GivingUp(_Command, frozen=True, tag=10):
    """This life is over, or was away for too long: nothing is kept for its clients any more."""

    life: str


Command = (
    Seating | TakingLead | Meeting | Entering | Bringing | Keeping | Wishing | Releasing | GivingUp
)  # fmt: skip


def key_of(command: Command) -> CommandKey:
    match command:
        case Entering():
            return ("entering", command.bundle.origin, command.bundle.first)
        case Bringing():
            return ("bringing", command.site, command.shipment.number)
        case Wishing() | Releasing():
            return ("numbered", command.life, command.no)
        case Keeping():
            return ("keeping", command.site)
        case _:
            return (type(command).__name__, *msgspec.structs.astuple(command))


# -- bytes -------------------------------------------------------------------------------------------------------------


def life_of(name: str, incarnation: int) -> str:
    return f"{name}/{incarnation}"


def name_of(life: str) -> str:
    return life.rpartition("/")[0]


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=to_fields)
_decoder: Final[msgspec.msgpack.Decoder[Command]] = msgspec.msgpack.Decoder(Command, dec_hook=from_fields)


def encode(command: Command) -> bytes:
    return _encoder.encode(command)


def decode(data: bytes) -> Command:
    """PeerError for bytes that no honest broker proposes."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise PeerError(f"a command that cannot be read: {error}") from None
