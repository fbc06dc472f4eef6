"""Whoever lies over TCP, with TLS and without, harms nobody else: what becomes of it, and everybody goes on."""

from pathlib import Path

import pytest

from tests.net.hostile_scenes import LIARS, LIES, outcomes
from tests.net.papers import Papers
from tests.net.stage import run

STRANGER, CLIENT, CHILD = LIARS
JOINS = "joins as a broker"

EXPECTED = {
    (STRANGER, True): dict.fromkeys(LIES, "refused at the greeting"),
    (STRANGER, False): {**dict.fromkeys(LIES, "not believed"), JOINS: "taken in"},
    (CLIENT, True): dict.fromkeys(LIES, "cut off"),
    (CLIENT, False): dict.fromkeys(LIES, "cut off"),
    (CHILD, True): dict.fromkeys(LIES, "not believed"),
    (CHILD, False): dict.fromkeys(LIES, "not believed"),
}


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(Path(tmp_path_factory.mktemp("papers")), brokers="b0 b1 b2", clients="teller witness")


@pytest.mark.parametrize("encrypted", [True, False], ids=["TLS", "plain"])
@pytest.mark.parametrize("who", LIARS)
def test_whoever_lies_harms_nobody_else(who: str, encrypted: bool, papers: Papers) -> None:
    assert run(outcomes(who, papers if encrypted else None)) == EXPECTED[who, encrypted]
