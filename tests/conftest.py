"""For all tests: the order in which workers run them (`turns`), the fork server that starts their processes
(`fork_server`), and the tests that the compiled form of the package skips (`compiled`). Every simulated run checks the
invariants of its brokers (`sim.checking`), unless `RESPROUT_INVARIANTS=0`: in `make test` three times less often than
in `make soak` and in drawn trials, because with `PERIOD` the checks take two fifths of a run."""

import gc
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from xdist.remote import Producer

from resprout.sim.checking import PERIOD
from resprout.sim.run import Run
from tests import fork_server
from tests.compiled import CLOSED, REASON, CarefulMonkeyPatch
from tests.soak import cases
from tests.spark_session import check_named
from tests.spark_session import spark as spark
from tests.turns import Turns, in_turns

Run.check_period = 0 if os.environ.get("RESPROUT_INVARIANTS") == "0" else cases(3 * PERIOD, PERIOD)
fork_server.install()
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # Under nohup. Processes inherit an ignored signal, but not a handler, and tests send SIGHUP to brokers.
    signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Turns | None:
    return Turns(config, log) if config.getvalue("dist") == "loadgroup" else None  # what a user asks for instead


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Each worker imports everything and makes all tests, none of which is garbage: a third of that time was spent on
    looking for some."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    check_named(items)
    if hasattr(config, "workerinput"):  # alone they run as they are written
        items[:] = in_turns(items)


@pytest.fixture
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    patch = CarefulMonkeyPatch()
    yield patch
    patch.undo()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    try:
        return (yield)
    except TypeError as error:
        if CLOSED in str(error):
            pytest.skip(REASON)
        raise
