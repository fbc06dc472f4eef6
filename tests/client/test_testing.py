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


def test_the_fixture_is_found_without_any_setting(tmp_path: Path) -> None:
    (tmp_path / "test_foreign.py").write_text(FOREIGN_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


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
    (tmp_path / "test_foreign.py").write_text("def test_no(resprout_broker):\n    assert not resprout_broker.address\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
