"""Whoever lies over TCP, with TLS and without, harms nobody else. It is counted what becomes of it, and all goes on."""

from pathlib import Path

import pytest

from resprout.stacks.resprout.account import NEVER_SAID, NO_NEIGHBOUR, NOT_BELIEVED
from tests.net.hostile_scenes import LIARS, LIES, outcomes
from tests.net.papers import Papers
from tests.net.stage import run

STRANGER, CLIENT, CHILD = LIARS
JOINS = "joins as a broker"
FORGED = "forged `Forward`"

NOT_ITS_OWN = "it said what it may not say"
NO_PAPERS = "it has no certificate, and a broker needs one here"

EXPECTED: dict[tuple[str, bool], dict[str, tuple[str, str | None]]] = {
    (STRANGER, True): dict.fromkeys(LIES, ("refused at the greeting", NO_PAPERS)),
    (STRANGER, False): {
        **dict.fromkeys(LIES, ("not believed", NOT_BELIEVED)),
        FORGED: ("not believed", NO_NEIGHBOUR),
        "`Suspect` of a healthy broker": ("not believed", None),  # it is looked into
        JOINS: ("taken in", None),
    },
    (CLIENT, True): dict.fromkeys(LIES, ("cut off", NOT_ITS_OWN)),
    (CLIENT, False): dict.fromkeys(LIES, ("cut off", NOT_ITS_OWN)),
}
"""What becomes of it, and as what it is counted."""
EXPECTED[CHILD, True] = EXPECTED[CHILD, False] = {
    **dict.fromkeys(LIES, ("not believed", None)),  # it may say so, and nothing follows from it
    "`Fenced`": ("not believed", NOT_BELIEVED),
    FORGED: ("not believed", NEVER_SAID),
}


@pytest.mark.parametrize("encrypted", [True, False], ids=["TLS", "plain"])
@pytest.mark.parametrize("who", LIARS)
def test_whoever_lies_harms_nobody_else(who: str, encrypted: bool, tmp_path: Path) -> None:
    papers = Papers(tmp_path, brokers="b0 b1 b2", clients="teller witness") if encrypted else None
    expected = {lie: (became, {why: 1} if why else {}) for lie, (became, why) in EXPECTED[who, encrypted].items()}
    answered = [lie for lie, (became, _) in expected.items() if became != "not believed"]
    assert run(outcomes(who, papers, answered)) == expected
