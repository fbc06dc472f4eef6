"""How long a test waits for what must happen: one bound, which only a test that hangs reaches.

A test waits for the condition itself, never for a time after which it should hold. The bound is the same everywhere
and far beyond what any step takes under `make test-loaded`; pytest ends a test a minute later.
"""

from typing import Final

PATIENCE_S: Final = 240.0
