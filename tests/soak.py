"""How many arbitrary cases a test tries: a few in `make test`, which shows what is broken; many in `make soak`, which
finds what is rare."""

import os

SOAKING = "RESPROUT_SOAK" in os.environ


def cases(few: int, many: int) -> int:
    return many if SOAKING else few
