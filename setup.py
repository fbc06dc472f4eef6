"""The compiled form of the package, and its public address: everything else about it is in `pyproject.toml`.

With RESPROUT_COMPILED=1 the modules that `tools/compiled.py` finds become extension modules, of the same sources; with
some of their names, divided by commas, only those. It needs mypy, which brings mypyc, and a C compiler. What they are
translated to goes to the folder that RESPROUT_COMPILING names. RESPROUT_OPTIMIZED is the C compiler's level of
optimization, 2 without it: 0 is enough to see that modules compile.

RESPROUT_URL is the address of the repository, such as https://example.org/resprout. It becomes `project.urls`, and the
links of the README become absolute (`URL/blob/vVERSION/docs/client.md`), because a package index shows only the README.
Without it there are no `project.urls`, and the links stay relative.
"""

import os
import re
import shutil
import sys
import tomllib
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


def described() -> dict[str, Any]:
    """Return the README and the addresses of the project, for the metadata."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    settings: dict[str, Any] = {"long_description_content_type": "text/markdown"}
    if url := os.environ.get("RESPROUT_URL", "").rstrip("/"):
        if not url.startswith("https://"):
            sys.exit(f"resprout: RESPROUT_URL={url}: an address that begins with https://")
        tagged = f"{url}/blob/v{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"
        text = re.sub(r"\]\((?![a-z]+:|#)([^)]+)\)", rf"]({tagged}/\1)", text)
        settings["project_urls"] = {
            "Documentation": f"{tagged}/docs/README.md",
            "Changelog": f"{tagged}/CHANGELOG.md",
            "Source": url,
            "Issues": f"{url}/issues",
        }
    return settings | {"long_description": text}


setup(ext_modules=extensions(), **described())
