"""For all tests: in which order several workers take them (see `turns`)."""

import pytest
from xdist.remote import Producer

from tests.turns import Turns, in_turns


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Turns | None:
    return Turns(config, log) if config.getvalue("dist") == "loadgroup" else None  # what a user asks for instead


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # alone they run as they are written
        items[:] = in_turns(items)
