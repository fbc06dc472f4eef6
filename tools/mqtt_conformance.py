"""Run Eclipse Paho's interoperability suite for MQTT against brokers of this package.

    python -m tools.mqtt_conformance FOLDER [--brokers 2] [--at HOST:PORT] [TEST ...]

FOLDER is a copy of the public repository `paho.mqtt.testing`; nothing of it is part of this one. With two brokers the
second client of the suite is connected to the second broker, so publishers and subscribers are apart wherever a test
has two clients. `--at` runs the suite against another server, to tell its faults from ours. The suites take some
minutes, because they wait. `test_subscribe_failure` has brokers of its own, whose rules forbid its topic: rules list
what is allowed, and the other tests subscribe to everything.
"""

import argparse
import contextlib
import importlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

SUITES: Final = ("client_test", "client_test5")
KEEP_ALIVE_SECONDS: Final = 60
"""As the suite wants it: it asks for 120 s and has to be given this."""
REFUSED: Final = "test_subscribe_failure"
RULES: Final = """
[anybody]
publish = ["#", "/#"]
subscribe = ["TopicA/#", "client_test5/#"]
"""
SECONDS_MAX: Final = 1_800
TEST_SECONDS_MAX: Final = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tests", nargs="*", metavar="TEST", help="names of tests; all of them, without any")
    parser.add_argument("--brokers", type=int, choices=(1, 2), default=1)
    parser.add_argument("--at", metavar="HOST:PORT")
    parser.add_argument("--suite", choices=SUITES)
    parser.add_argument("--ports", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    folder = wanted.folder / "interoperability"
    if not (folder / "client_test.py").exists():
        parser.error(f"{wanted.folder} is no copy of paho.mqtt.testing: there is no interoperability/client_test.py")
    if wanted.ports:
        return run_suite(folder, wanted.suite, [int(port) for port in wanted.ports.split(",")], wanted.tests)
    failed = 0
    for suite in (wanted.suite,) if wanted.suite else SUITES:
        failed += _run_apart(wanted, suite)
    return 1 if failed else 0


def _run_apart(wanted: Any, suite: str) -> int:
    """Each suite in a process of its own: it keeps everything in globals."""
    if wanted.at:
        return _suite_process(wanted, suite, [int(wanted.at.rpartition(":")[2])], wanted.tests)
    rest = [test for test in wanted.tests if test != REFUSED]
    failed = 0
    if rest or not wanted.tests:
        with brokers(wanted.brokers) as ports:
            failed += _suite_process(wanted, suite, ports, rest)
    if not wanted.tests or REFUSED in wanted.tests:
        with brokers(wanted.brokers, RULES) as ports:
            failed += _suite_process(wanted, suite, ports, [REFUSED])
    return failed


def _suite_process(wanted: Any, suite: str, ports: list[int], tests: list[str]) -> int:
    command = [sys.executable, "-m", "tools.mqtt_conformance", "--suite", suite]
    command += ["--ports", ",".join(map(str, ports)), str(wanted.folder.resolve()), *tests]
    done = subprocess.run(command, check=False, timeout=SECONDS_MAX)
    return done.returncode


def run_suite(folder: Path, name: str, ports: list[int], tests: list[str]) -> int:
    """In this process. Returns how many tests failed."""
    sys.path.insert(0, str(folder))
    suite: Any = importlib.import_module(name)
    prefix = "client_test5/" if name == "client_test5" else ""
    suite.topic_prefix = prefix
    suite.topics = [prefix + topic for topic in ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")]
    suite.wildtopics = [
        prefix + topic for topic in ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")
    ]  # fmt: skip
    suite.nosubscribe_topics = ("test/nosubscribe",)
    suite.host, suite.port = "127.0.0.1", ports[0]
    _spread_clients(suite, ports)
    names = tests or unittest.TestLoader().getTestCaseNames(suite.Test)
    _bound_tests(suite)
    chosen = unittest.TestSuite([suite.Test(test) for test in names if test != REFUSED or tests])
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(chosen)
    wrong = len(result.failures) + len(result.errors)
    print(f"{name}: {result.testsRun - wrong} of {result.testsRun} passed", flush=True)
    return wrong


def _bound_tests(suite: Any) -> None:
    """A test that waits for ever fails."""

    def give_up(number: int, frame: Any) -> None:
        raise TimeoutError(f"the test took more than {TEST_SECONDS_MAX} s")

    signal.signal(signal.SIGALRM, give_up)
    suite.Test.setUp = lambda self: signal.alarm(TEST_SECONDS_MAX)
    suite.Test.tearDown = lambda self: signal.alarm(0)


def _spread_clients(suite: Any, ports: list[int]) -> None:
    """The second client of the suite goes to the last broker."""
    client = suite.mqtt_client.Client
    connect = client.connect

    def elsewhere(self: Any, *args: Any, **words: Any) -> Any:
        if bytes(self.clientid, "utf-8") if isinstance(self.clientid, str) else self.clientid:
            text = self.clientid if isinstance(self.clientid, str) else self.clientid.decode()
            if text.endswith("2"):
                words["port"] = ports[-1]
        return connect(self, *args, **words)

    client.connect = elsewhere


@contextlib.contextmanager
def brokers(count: int, rules: str = "") -> Iterator[list[int]]:
    """Brokers in processes of their own; gives their MQTT ports."""
    running: list[subprocess.Popen[bytes]] = []
    ports: list[int] = []
    with tempfile.TemporaryDirectory(prefix="resprout-mqtt-") as folder:
        try:
            parent: list[str] = []
            if rules:
                (Path(folder) / "rules.toml").write_text(rules)
                command = [sys.executable, "-m", "resprout", "secret", "--network", str(Path(folder) / "network.key")]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                parent += ["--rules", str(Path(folder) / "rules.toml")]
                parent += ["--network-key", str(Path(folder) / "network.key")]
            for number in range(count):
                port = free_port()
                config = Path(folder) / f"b{number}.toml"
                config.write_text(f'[mqtt]\nlisten = "127.0.0.1:{port}"\nkeep_alive_max = {KEEP_ALIVE_SECONDS}\n')
                words = ["broker", "--name", f"b{number}", "--listen", "127.0.0.1:0", "--config", str(config), "--json"]
                process = subprocess.Popen(
                    [sys.executable, "-m", "resprout", *words, *parent, "--insecure", "--stop-with-stdin"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ,
                )  # fmt: skip
                running.append(process)
                address = _until_mqtt(process)
                if not number:
                    parent += ["--parent", address]
                ports.append(port)
            yield ports
        finally:
            for process in running:
                assert process.stdin is not None
                process.stdin.close()
            for process in running:
                process.wait(timeout=60)


def _until_mqtt(process: "subprocess.Popen[bytes]") -> str:
    """The broker's address, once it listens for MQTT clients."""
    assert process.stdout is not None
    address = ""
    for line in process.stdout:
        said = msgspec.json.decode(line)
        address = said.get("address", address)
        if said.get("kind") == "mqtt":
            return str(address)
    raise RuntimeError("the broker has ended")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def free_ports(count: int) -> int:
    """Return the first of so many consecutive free ports, below those that the system gives to outgoing connections."""
    while True:
        first = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(first, first + count):
                probe = stack.enter_context(socket.socket())
                probe.bind(("127.0.0.1", port))
            return first


if __name__ == "__main__":
    sys.exit(main())
