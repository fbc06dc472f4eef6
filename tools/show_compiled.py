"""`python -m tools.show_compiled`: how much of the package that this Python finds is compiled; 1 if nothing is."""

import importlib
import sys
from pathlib import Path

import resprout
from tools.compiled import compiled_modules

ROOT = Path(__file__).parent.parent


def main() -> int:
    names = list(compiled_modules(ROOT))
    found = [name for name in names if not str(importlib.import_module(name).__file__).endswith(".py")]
    print(f"{len(found)} of {len(names)} modules are compiled in {Path(resprout.__file__).parent.parent}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
