"""Only for the compiled form of the package: everything else about it is in `pyproject.toml`.

With RESPROUT_COMPILED=1 the modules that `tools/compiled.py` finds become extension modules, of the same sources; with
some of their names, divided by commas, only those. It needs mypy, which brings mypyc, and a C compiler. What they are
translated to goes to the folder that RESPROUT_COMPILING names. RESPROUT_OPTIMIZED is the C compiler's level of
optimization, 2 without it: whoever only wants to see that some modules can be compiled need not wait for fast ones.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from setuptools import setup

ROOT = Path(__file__).parent
LEVELS = ("0", "1", "2", "3")


def extensions() -> list[Any]:
    wanted = os.environ.get("RESPROUT_COMPILED", "")
    if not wanted:
        return []
    level = os.environ.get("RESPROUT_OPTIMIZED", "2")
    if level not in LEVELS:
        sys.exit(f"resprout: RESPROUT_OPTIMIZED is one of {', '.join(LEVELS)}, not {level!r}")
    if shutil.which(os.environ.get("CC", "cc").split()[0]) is None:
        sys.exit("resprout: the compiled form needs a C compiler (cc): install gcc or clang, or set CC")
    try:
        from mypyc.build import mypycify
    except ImportError:
        sys.exit("resprout: the compiled form needs mypy; `make` sets up an environment that has it")
    sys.path.insert(0, str(ROOT))
    from tools.compiled import compiled_modules

    modules = compiled_modules(ROOT)
    names = list(modules) if wanted == "1" else wanted.split(",")
    if unknown := [name for name in names if name not in modules]:
        sys.exit(f"resprout: {unknown[0]} is not compiled; RESPROUT_COMPILED is 1, or names of modules that are")
    paths = [str(modules[name].relative_to(ROOT)) for name in names]
    folder = os.environ.get("RESPROUT_COMPILING", "build/compiling")
    words = ["--config-file=tools/mypyc.ini", *paths]
    return list(mypycify(words, opt_level=level, multi_file=True, target_dir=folder))


setup(ext_modules=extensions())
