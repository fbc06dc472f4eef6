"""HyParView at size: many members, of which a share fails at once, seed after seed. Whether the others still hang
together is computed from what they say of themselves, and so are their degrees.

    python -m tests.overlay [--seeds N] [--first K] [--members M] [--share S]
"""

import argparse
import sys
from collections import Counter

from tests.overlay.hyparview_net import Members

GROWN_US = 4_000_000
"""How long they have to find neighbours, before and after."""


def struck(seed: int, members: int, share: float) -> tuple[list[int], Counter[int], Counter[int]]:
    """Sizes of the pieces that are left, and degrees before and after."""
    net = Members(seed)
    net.grow(members, every_us=4_000)
    net.pass_time(GROWN_US)
    assert net.components() == [members], "it hangs together before anybody fails"
    before = net.degrees()
    net.kill(net.rng.sample(list(net.living), round(share * members)))
    net.pass_time(GROWN_US)
    net.rest()
    assert not net.one_sided(), "views are the same from both ends"
    return net.components(), before, net.degrees()


def in_words(degrees: Counter[int]) -> str:
    return ", ".join(f"{count} have {degree}" for degree, count in sorted(degrees.items(), reverse=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.overlay", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--share", type=float, default=0.3)
    asked = parser.parse_args()
    apart = 0
    for seed in range(asked.first, asked.first + asked.seeds):
        pieces, before, after = struck(seed, asked.members, asked.share)
        apart += len(pieces) > 1
        told = f"neighbours before: {in_words(before)}; after: {in_words(after)}"
        sys.stdout.write(f"seed {seed}: pieces {pieces}; {told}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{asked.seeds} overlays of {asked.members}, {asked.share:.0%} fail at once: {apart} fell apart\n")
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
