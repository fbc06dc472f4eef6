"""Randomness that depends on what it is for and on nothing else.

Every consumer gets a generator of its own, named by the scenario's seed and its purpose, so that a new client or
workload does not change the choices of the others. Python's `hash` differs between processes and is not used.
"""

import hashlib
import random


def random_for(*purpose: str | int) -> random.Random:
    """The generator of this purpose; equal purposes give equal sequences on every machine."""
    text = "\0".join(f"{type(part).__name__}:{part}" for part in purpose)
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))
