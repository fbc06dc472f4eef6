"""Whether anybody listens where Spark is said to run, asked before Java is started.

Spark itself tries a master that is not there three times, 20 seconds each, before it says so.
"""

import ipaddress
import re
import socket
from typing import Final

from resprout.pipeline.errors import NoSparkError

CONNECT_SECONDS_MAX: Final = 5.0
CONNECT: Final = "sc://"
"""Begins the address of a server of Spark Connect."""
_CONNECT_PORT: Final = 15002
_STANDALONE: Final = "spark://"
_PLACE: Final = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})")


def check_answers(master: str) -> None:
    """NoSparkError when it is a standalone master, or several, or a server of Spark Connect, and none of them can be
    connected to. Whatever else it is, Spark knows better."""
    reasons = []
    for host, port in places_of(master):
        try:
            socket.create_connection((host, port), CONNECT_SECONDS_MAX).close()
        except (OSError, UnicodeError, OverflowError) as error:
            reasons.append(f"{host}:{port}: {_reason(error)}")
        else:
            return
    if reasons:
        raise NoSparkError(f"Spark cannot be started: no master answers ({'; '.join(reasons)})")


def is_on_this_machine(master: str) -> bool:
    """Whether it is reached by loopback only: then nobody else need reach what runs for it."""
    places = places_of(master)
    return bool(places) and all(_is_loopback(host) for host, _ in places)


def places_of(master: str) -> list[tuple[str, int]]:
    """Host and port of each master in `spark://a:7077,b:7077`, or of `sc://host`; none when it is written otherwise."""
    if master.startswith(CONNECT):
        place = master.removeprefix(CONNECT).partition("/")[0]
        found = _PLACE.fullmatch(place) or _PLACE.fullmatch(f"{place}:{_CONNECT_PORT}")
        return [] if found is None else [(found["six"] or found["host"], int(found["port"]))]
    if not master.startswith(_STANDALONE):
        return []
    masters = [_PLACE.fullmatch(text) for text in master.removeprefix(_STANDALONE).split(",")]
    return [(one["six"] or one["host"], int(one["port"])) for one in masters if one is not None]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {CONNECT_SECONDS_MAX:.0f} s"
    return (getattr(error, "strerror", None) or str(error)).lower()
