"""All brokers stop, and a supervisor starts them again with the very same command lines: real processes, one file each,
`found = true` in one of them, a data folder at each."""

import contextlib
import json
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.request import urlopen

import pytest

from resprout.net.data_folder import remembered
from resprout.overlay.configurations import decode
from tests.cli.processes import Running, resprout, running
from tests.patience import PATIENCE_S

NAMES = ("b0", "b1", "b2")


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """Six ports that no other process is given during the test: each stays bound by a socket that does not listen, so a
    broker can still listen there."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(6)]
        for one in sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", 0))
        yield [one.getsockname()[1] for one in sockets]


class Files:
    """The files of three brokers."""

    def __init__(self, folder: Path, durable: str, ports: Sequence[int]) -> None:
        self.folder = folder
        self.started: dict[str, Running] = {}
        """The latest process of each broker."""
        self.address = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports, strict=False)}
        self.http = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports[3:], strict=True)}
        for name in NAMES:
            others = [self.address[other] for other in NAMES if other != name]
            (folder / f"{name}.toml").write_text(
                f'name = "{name}"\nlisten = "{self.address[name]}"\ndata = "{folder / name}"\n'
                f"join = {json.dumps(others)}\n"
                f'found = {"true" if name == "b0" else "false"}\nhttp = "{self.http[name]}"\n'
                f"[options]\ndurable = {durable}\nheartbeat_us = 200_000\nlease_us = 1_000_000\nghost_us = 2_000_000\n"
            )

    @contextlib.contextmanager
    def run(self, names: Sequence[str]) -> Iterator[dict[str, Running]]:
        """Start these, in this order, with the command line that is always used."""
        with contextlib.ExitStack() as stack:
            yield {name: stack.enter_context(self.one(name)) for name in names}

    @contextlib.contextmanager
    def one(self, name: str, *words: str) -> Iterator[Running]:
        with running("broker", "--config", str(self.folder / f"{name}.toml"), "--json", *words) as process:
            self.started[name] = process
            yield process

    def survey(self, name: str) -> dict[str, object]:
        """What its page shows of the tree; nothing while it cannot be asked."""
        try:
            return dict(json.loads(urlopen(f"http://{self.http[name]}/status.json", timeout=PATIENCE_S).read()))
        except OSError:
            return {"network": "", "brokers": []}

    def wait_for(self, names: Sequence[str]) -> str:
        """Until these, and no others, are one network, and each has on disk that all of them vote; its name."""
        deadline = time.monotonic() + PATIENCE_S
        told: dict[str, object] = {}
        while time.monotonic() < deadline:
            for name in names:
                process = self.started[name]
                assert process.process.poll() is None, f"{name} has ended: {process.rest()}"
            told = self.survey(names[0])
            brokers = told["brokers"]
            assert isinstance(brokers, list)
            is_one = told["network"] and sorted(one["name"] for one in brokers) == sorted(names)
            if is_one and all(self.voters(name) == len(names) for name in names):
                return str(told["network"])
            time.sleep(0.1)
        raise AssertionError(f"{names} do not form a network: {told}")

    def voters(self, name: str) -> int:
        """Of the last decided configuration that it has on disk."""
        memory = decode(remembered(self.folder / name).memory)
        return len(memory.decided.voters) if memory is not None else 0

    def assert_serves(self) -> None:
        done = resprout("pub", "t", "x", "--wait", "delivered", "--server", self.address["b1"])
        assert done.returncode == 0, done.stderr


def kill(brokers: dict[str, Running]) -> None:
    for one in brokers.values():
        one.process.send_signal(signal.SIGKILL)
    for one in brokers.values():
        one.process.wait(PATIENCE_S)


def note(process: Running, kind: str) -> str:
    """The detail of the next note of this kind."""
    while True:
        line = json.loads(process.line())
        if line.get("kind") == kind:
            return str(line["columns"]["detail"])


@pytest.mark.parametrize("durable", ["false", "true", '"journal"'])
def test_all_brokers_are_killed_and_started_again_in_any_order_and_are_the_same_network(
    tmp_path: Path, ports: list[int], durable: str
) -> None:
    files = Files(tmp_path, durable, ports)
    with files.run(("b1", "b2", "b0")) as brokers:  # the founder last
        network = files.wait_for(NAMES)
        files.assert_serves()
        kill(brokers)
    with files.run(("b2", "b1", "b0")) as brokers:
        assert files.wait_for(NAMES) == network
        files.assert_serves()
        kill(brokers)
    with files.run(("b0", "b2", "b1")):
        assert files.wait_for(NAMES) == network
        files.assert_serves()


def test_two_of_three_go_on_and_the_founder_alone_joins_them(tmp_path: Path, ports: list[int]) -> None:
    files = Files(tmp_path, "false", ports)
    with files.run(NAMES) as brokers:
        network = files.wait_for(NAMES)
        kill(brokers)
    with files.run(("b2", "b1")) as brokers:
        assert files.wait_for(("b1", "b2")) == network
        files.assert_serves()
        with files.run(("b0",)) as founder:  # a supervisor starts it with `found = true`, while the others live
            assert files.wait_for(NAMES) == network
            founder["b0"].process.send_signal(signal.SIGKILL)


def test_one_of_three_says_who_is_missing_and_what_to_type(tmp_path: Path, ports: list[int]) -> None:
    files = Files(tmp_path, "false", ports)
    with files.run(NAMES) as brokers:
        network = files.wait_for(NAMES)
        kill(brokers)
    with files.run(("b0",)) as brokers:
        said = note(brokers["b0"], "reunion_waits")
        for word in (network, f"b1 ({files.address['b1']})", f"b2 ({files.address['b2']})", "1 more of them needed"):
            assert word in said
        command = f"resprout broker --config {tmp_path / 'b0.toml'} --json --force-found"
        assert command in said
        done = resprout("status", "--server", files.address["b0"])
        assert done.returncode == 1 and command in done.stdout.decode()
        assert command in urlopen(f"http://{files.http['b0']}/healthz", timeout=PATIENCE_S).read().decode()
        kill(brokers)
    with files.one("b0", "--force-found") as anew:
        note(anew, "founded")
        with files.run(("b1", "b2")):  # they come back all the same, and find somebody who has a place
            files.wait_for(NAMES)
            files.assert_serves()


def test_a_broker_that_was_alone_goes_on_with_its_network(tmp_path: Path, ports: list[int]) -> None:
    files = Files(tmp_path, "false", ports)
    with files.run(("b0",)) as brokers:
        network = files.wait_for(("b0",))
        kill(brokers)
    with files.run(("b0",)):
        assert files.wait_for(("b0",)) == network
