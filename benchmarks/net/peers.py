"""Who is compared: ours first, then everybody whom this machine has what it takes to run."""

import sys
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from benchmarks.net import rows
from benchmarks.net.environment import BENCH_PYTHON, find_server, worker_environment
from benchmarks.net.rows import Command, Row, python_server
from resprout.cli.load import ours
from resprout.cli.load.team import LoadProcess, OurChain, Team
from resprout.core.guarantee import Guarantee
from resprout.scenario.model import OptionValue

OURS: Final = "resprout"


class Peer(msgspec.Struct, frozen=True):
    name: str
    client: str
    """A module of `benchmarks.net.clients`."""
    command: Command
    chains: bool = True
    """Several servers can be put in a row."""
    crowd_max: int = 500
    """So many of its clients fit into one process."""
    settles: bool = False
    """A publisher can wait until a message is safe; on one server and without a subscriber."""

    def team(self, brokers: int, subscribers: int, publishers: int = 1, settle: str = "") -> Team:
        """`settle`: what it publishes is to be safe, in "memory" or in a "file"."""

        def worker(role: str, address: str) -> LoadProcess:
            words = [str(BENCH_PYTHON), "-m", f"benchmarks.net.clients.{self.client}", role, address]
            words += ["settle", settle] if settle else []
            return LoadProcess(f"{self.name}, the {role}", words, worker_environment())

        return Team(Row(self.name, self.command, brokers), worker, subscribers, publishers)


def our_team(
    brokers: int,
    subscribers: int,
    publishers: int = 1,
    guarantee: Guarantee = Guarantee.CAUSAL,
    options: Mapping[str, OptionValue] | None = None,
) -> Team:
    def worker(role: str, address: str) -> LoadProcess:
        return LoadProcess(f"{OURS}, the {role}", ours.command(role, address, guarantee))

    return Team(OurChain(brokers, options=options), worker, subscribers, publishers)


def find_peers() -> list[Peer]:
    """Those that are here; a line on standard error for each that is not."""
    if not BENCH_PYTHON.exists():
        left_out("everybody else", "there is no environment .venv-bench (`make bench` makes it)")
        return []
    peers = [
        Peer("zenoh", "zenoh_client", python_server("zenoh_router")),
        Peer("pyzmq proxy", "zmq_client", python_server("zmq_proxy")),
        Peer("bare relay", "bare_client", python_server("bare_relay"), chains=False),
    ]
    peers += _installed("nats-server", lambda found: Peer("nats", "nats_client", rows.nats(found), settles=True))
    peers += _installed("mosquitto", lambda found: Peer("mosquitto", "mqtt_client", rows.mosquitto(found)))
    peers += _installed(
        "redis-server", lambda found: Peer("redis", "redis_client", rows.redis(found), chains=False, settles=True)
    )
    return [*peers, Peer("amqtt", "mqtt_client", python_server("amqtt_broker"), chains=False)]


def left_out(who: str, why: str) -> None:
    print(f"net: {who} is left out: {why}", file=sys.stderr, flush=True)


def _installed(server: str, make: Callable[[str], Peer]) -> list[Peer]:
    found = find_server(server)
    if found is None:
        left_out(server, "it is not installed")
        return []
    return [make(found)]
