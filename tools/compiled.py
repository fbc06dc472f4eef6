"""Which modules are compiled, and why others are not. `make fast` and `setup.py` ask; nothing is kept by hand.

`python -m tools.compiled` translates all of them to C without compiling the C. `make check` runs it, because mypyc
accepts less than mypy does.

Everything pure is compiled (the floors below `trace`), but for modules that define:

- a msgspec structure: msgspec makes its classes itself, and mypyc makes none of them;
- a class with two bases, but for protocols: compiled classes have one;
- a protocol that is looked for at run time, which compiled ones are not made for;
- a class with slots that derives from one which is not compiled;
- a class that something derives from which is not compiled: interpreted classes cannot derive from compiled ones.

So a hot class does not share a module with a structure.
"""

import ast
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

PACKAGES: Final = ("resprout", "resprout_lab")
PURE: Final = "protocols are pure"
"""How the rule of imports begins that lists the pure floors, in `pyproject.toml`."""

_ANY_TYPE: Final = "it refuses what is of the wrong type in its own words, and compiled functions do it in theirs"
LISTED: Final = {
    "resprout.stacks.shell": "brokers and shared parts of other packages derive from its classes",
    "resprout.links.frames": "what it is given as bytes may be a view of them, or stand for them",
    "resprout.core.guarantee": _ANY_TYPE,
    "resprout.core.limits": _ANY_TYPE,
    "resprout.edge.client.publishing": _ANY_TYPE,
    "resprout.filters.predicate": _ANY_TYPE,
}
"""Modules that stay as they are for a reason that cannot be seen in their classes."""

_NOT_BASES: Final = ("Protocol", "Generic", "typing.Protocol")


def compiled_modules(root: Path) -> dict[str, Path]:
    """By name: the files to compile, of the project in this folder."""
    modules = all_modules(root)
    aside = interpreted(modules, pure_floors(root))
    return {name: path for name, path in modules.items() if name not in aside}


def interpreted(modules: Mapping[str, Path], floors: tuple[str, ...]) -> dict[str, str]:
    """The modules that are not compiled, each with the reason."""
    classes: dict[str, list[tuple[str, list[str]]]] = {}
    imported: dict[str, dict[str, str]] = {}
    slotted: set[tuple[str, str]] = set()
    # One tree at a time: to look for garbage among all takes longer than to read them.
    for name, path in modules.items():
        body = ast.parse(path.read_text()).body
        defined = list(_defined(body))
        classes[name] = [(node.name, _bases(node)) for node in defined]
        imported[name] = _imported(body)
        slotted |= {(name, node.name) for node in defined if _is_slotted(node)}
    anywhere = {each: name for name, found in classes.items() for each, _ in found}
    structures = _structures([each for found in classes.values() for each in found])
    aside: dict[str, str] = {name: why for name, why in LISTED.items() if name in modules}
    aside |= {name: "it has a protocol that is looked for at run time" for name in modules if _looks(modules[name])}
    for name, found in classes.items():
        if not name.startswith(tuple(f"{floor}." for floor in floors)):
            aside[name] = "it is not pure"
        for each, bases in found:
            if each in structures:
                aside.setdefault(name, f"{each} is a structure")
            elif len(bases) > 1:
                aside.setdefault(name, f"{each} has {len(bases)} bases")
    found_more = True
    while found_more:
        found_more = False
        for name, found in classes.items():
            for each, bases in found:
                for base in bases:
                    owner = name if any(base == own for own, _ in found) else imported[name].get(base, "")
                    owner = owner if owner in modules else anywhere.get(base, name)
                    if name in aside and owner not in aside:
                        aside[owner] = f"{each}, which is not compiled, derives from {base}"
                        found_more = True
                    elif owner in aside and name not in aside and (name, each) in slotted:
                        aside[name] = f"{each}, with slots, derives from {base}, which is not compiled"
                        found_more = True
    return aside


def all_modules(root: Path) -> dict[str, Path]:
    """But for packages themselves, which are empty or hold names only."""
    source = root / "src"
    paths = [path for one in PACKAGES for path in sorted((source / one).rglob("*.py")) if path.name != "__init__.py"]
    return {".".join(path.relative_to(source).with_suffix("").parts): path for path in paths}


def pure_floors(root: Path) -> tuple[str, ...]:
    """As the rules of imports have them."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    rules = [rule for rule in settings["tool"]["importlinter"]["contracts"] if rule["name"].startswith(PURE)]
    assert len(rules) == 1, f"one rule begins with {PURE!r}"
    return tuple(rules[0]["source_modules"])


def _defined(body: Iterable[ast.stmt]) -> Iterator[ast.ClassDef]:
    """Classes, wherever they stand. Only statements are looked into: there are ten times as many expressions."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _defined(getattr(node, field, ()))


def _imported(body: Iterable[ast.stmt]) -> dict[str, str]:
    """Return the modules that names of a module are imported from. Two modules may define classes of one name."""
    lines = [node for node in body if isinstance(node, ast.ImportFrom) and node.module]
    return {each.asname or each.name: str(node.module) for node in lines for each in node.names}


def _bases(node: ast.ClassDef) -> list[str]:
    """As far as they have any say."""
    bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
    return [base for base in bases if base not in _NOT_BASES]


def _is_slotted(node: ast.ClassDef) -> bool:
    """It lists its attributes."""
    return any(isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__slots__" for line in node.body)


def _looks(path: Path) -> bool:
    return any(line.startswith("@runtime_checkable") for line in path.read_text().splitlines())


def _structures(classes: list[tuple[str, list[str]]]) -> set[str]:
    """Names of all classes that derive from msgspec's, at any distance."""
    found = {"msgspec.Struct"}
    size = 0
    while size != len(found):
        size = len(found)
        found |= {name for name, bases in classes if not found.isdisjoint(bases)}
    return found


def translate(root: Path) -> int:
    """Translate the modules to C in a temporary folder and return their number; mypyc ends the process if it cannot."""
    from mypyc.build import mypycify

    modules = compiled_modules(root)
    paths = [str(path.relative_to(root)) for path in modules.values()]
    with tempfile.TemporaryDirectory() as folder:
        mypycify(["--config-file=tools/mypyc.ini", *paths], multi_file=True, target_dir=folder)
    return len(modules)


if __name__ == "__main__":
    print(f"mypyc can translate {translate(Path.cwd())} modules")
