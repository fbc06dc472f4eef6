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


@pytest.mark.parametrize("encrypted", [True, False], ids=["TLS", "plain"])
@pytest.mark.parametrize("who", LIARS)
def test_whoever_lies_harms_nobody_else(who: str, encrypted: bool, tmp_path: Path) -> None:
    papers = Papers(tmp_path, brokers="b0 b1 b2", clients="teller witness") if encrypted else None
    assert run(outcomes(who, papers)) == EXPECTED[who, encrypted]
