"""Drawn networks of every stack beside the default one, with the faults that it says it survives, are clean.

A few of each are in `make test`; CI has forty with `make seeds`, and `make soak` five hundred.
"""

import msgspec
import pytest

from resprout.sim.swarm import try_seed
from resprout.stacks.registry import find_stack
from resprout_lab import SYSTEMS
from tests.soak import cases

BLOCK = 4


@pytest.mark.parametrize("first", range(1, cases(4, 40) + 1, BLOCK))
@pytest.mark.parametrize("stack", SYSTEMS)
def test_drawn_networks_keep_every_promise(stack: str, first: int) -> None:
    seeds = range(first, first + BLOCK)
    failures = [outcome.report for seed in seeds if (outcome := try_seed(seed, stack=stack)).failed]
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize("stack", ["locamu", "delta", "cbcast", "causal-barriers"])
def test_every_option_of_the_multicasts_is_drawn(stack: str) -> None:
    tried = find_stack(stack)
    assert set(tried.drawn) == {field.name for field in msgspec.structs.fields(tried.options)}
    assert all(len(set(values)) > 1 for values in tried.drawn.values())
