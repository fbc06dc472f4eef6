"""The pytest plugin, as the tests of other programs use it."""

import subprocess
import sys
from pathlib import Path

import pytest

import resprout
from resprout.testing import Broker
from tests.net.stage import run
from tests.patience import PATIENCE_S

FOREIGN_TESTS = """
import asyncio
import resprout

def test_blocking(resprout_broker):
    with resprout_broker.connect("c") as client:
        inbox = client.subscribe("t")
        client.publish("t", b"x").safe(timeout=100)
        assert inbox.next(timeout=100).payload == b"x"

def test_every_test_has_a_broker_of_its_own(resprout_broker):
    async def scene():
        async with resprout_broker.connect("c") as client:
            inbox = await client.subscribe("t")
            assert len(inbox) == 0
    asyncio.run(scene())
"""


def run_pytest(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run the tests as another project does that names the plugin in its `conftest.py`."""
    (folder / "conftest.py").write_text('pytest_plugins = ["resprout.testing"]\n')
    (folder / "test_foreign.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_the_fixture_is_found_when_conftest_names_the_plugin(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, FOREIGN_TESTS)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_pytest_does_not_rewrite_the_asserts_of_the_package(tmp_path: Path) -> None:
    names = "import resprout.order.log as log\nassert 'AssertionRewritingHook' not in repr(log.__loader__)"
    done = run_pytest(tmp_path, f"def test_loader(resprout_broker):\n    {names.replace(chr(10), chr(10) + '    ')}\n")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_it_serves_blocking_and_asynchronous_clients_at_once(resprout_broker: Broker) -> None:
    async def scene() -> None:
        async with resprout_broker.connect("a") as a, resprout.connect(resprout_broker.address) as b:
            inbox = await b.subscribe("t")
            await a.publish("t", b"async")
            assert (await inbox.next()).payload == b"async"
            c = await resprout_broker.connect()
            await c.publish("t", b"awaited")
            await c.close()
            assert (await inbox.next()).payload == b"awaited"
            with resprout_broker.connect("blocking") as blocking:
                blocking.publish("t", b"blocking")
            assert (await inbox.next()).payload == b"blocking"

    run(scene())


def test_a_failing_test_does_not_keep_the_broker_alive(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "def test_no(resprout_broker):\n    assert not resprout_broker.address\n")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "1 failed" in done.stdout, done.stdout
