"""The compiled form is the same package: which modules it compiles, and that runs come to the same."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.compiled import LISTED, all_modules, compiled_modules, interpreted, pure_floors

from tests.soak import SOAKING

ROOT = Path(__file__).parent.parent.parent
SCENARIO = "crash-b1"
SOME = ("resprout.core.seen", "resprout.links.flight")
"""Enough to show that compiled and interpreted modules work together; all of them take minutes."""

HOT = (
    "resprout.core.bundle",
    "resprout.edge.broker.sessions",
    "resprout.edge.client.incoming",
    "resprout.edge.client.machine",
    "resprout.links.links",
    "resprout.links.session",
    "resprout.order.log",
    "resprout.order.reports",
    "resprout.stacks.resprout.forwarding",
    "resprout.wire.bundles",
)


def test_what_a_message_passes_through_is_compiled() -> None:
    compiled = compiled_modules(ROOT)
    assert [name for name in HOT if name not in compiled] == []


def test_what_is_not_compiled_has_a_reason() -> None:
    reasons = interpreted(all_modules(ROOT), pure_floors(ROOT))
    assert reasons["resprout.core.contract"].endswith("is a structure")
    assert reasons["resprout.core.errors"] == "UsageError has 2 bases"
    assert reasons["resprout.net.host"] == "it is not pure"
    for name, why in LISTED.items():
        assert reasons[name] == why, "it is there, and for no other reason"


def test_nothing_is_compiled_that_an_interpreted_class_derives_from(tmp_path: Path) -> None:
    files = {
        "resprout.core.base": "class Base: pass",
        "resprout.core.middle": "class Middle(Base): pass",
        "resprout.core.alone": "class Alone: pass",
        "resprout.net.leaf": "class Leaf(Middle): pass",
    }
    modules = {name: tmp_path / f"{name}.py" for name in files}
    for name, text in files.items():
        modules[name].write_text(text)
    reasons = interpreted(modules, ("resprout.core",))
    assert reasons["resprout.core.middle"] == "Leaf, which is not compiled, derives from Middle"
    assert reasons["resprout.core.base"] == "Middle, which is not compiled, derives from Base"
    assert "resprout.core.alone" not in reasons


def test_a_base_is_looked_for_where_it_is_imported_from_when_two_classes_have_its_name(tmp_path: Path) -> None:
    files = {
        "resprout.core.one": "class Base: pass",
        "resprout.core.user": "from resprout.core.one import Base\nclass Leaf(Base):\n    __slots__ = ()",
        "resprout.net.other": "class Base: pass",
    }
    modules = {name: tmp_path / f"{name}.py" for name in files}
    for name, text in files.items():
        modules[name].write_text(text)
    assert set(interpreted(modules, ("resprout.core",))) == {"resprout.net.other"}


def test_a_class_with_slots_is_compiled_only_if_what_it_derives_from_is(tmp_path: Path) -> None:
    files = {
        "resprout.core.base": "import msgspec\nclass Kept(msgspec.Struct): pass\nclass Base: pass",
        "resprout.core.slotted": "class Slotted(Base):\n    __slots__ = ()",
        "resprout.core.plain": "class Plain(Base): pass",
    }
    modules = {name: tmp_path / f"{name}.py" for name in files}
    for name, text in files.items():
        modules[name].write_text(text)
    reasons = interpreted(modules, ("resprout.core",))
    assert reasons["resprout.core.slotted"] == "Slotted, with slots, derives from Base, which is not compiled"
    assert "resprout.core.plain" not in reasons


def build(into: Path, wanted: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Sources of an extension must lie below the project, as soon as it was installed from there."""
    words = ["--build-base", str(into / "tmp"), "--build-lib", str(into / "lib")]
    folder = Path("build") / f"tested-{os.getpid()}"
    try:
        return subprocess.run(
            [sys.executable, "setup.py", "-q", "build", *words],
            cwd=ROOT,
            env={**os.environ, "RESPROUT_COMPILED": wanted, "RESPROUT_COMPILING": str(folder), **environment},
            capture_output=True,
            text=True,
            timeout=560,
            check=False,
        )  # fmt: skip
    finally:
        shutil.rmtree(ROOT / folder, ignore_errors=True)


def digest(source: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "resprout", "sim", str(SCENARIO)],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=560,
        check=True,
    )  # fmt: skip
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("digest")]
    return line


def test_without_a_compiler_one_line_says_what_is_needed(tmp_path: Path) -> None:
    done = build(tmp_path, "1", CC="no-such-compiler")
    assert done.returncode != 0
    assert done.stderr.strip() == (
        "resprout: the compiled form needs a C compiler (cc): install gcc or clang, or set CC"
    )


def test_a_level_that_there_is_not_is_refused_in_one_line(tmp_path: Path) -> None:
    done = build(tmp_path, "1", RESPROUT_OPTIMIZED="x")
    assert done.returncode != 0
    assert done.stderr.strip() == "resprout: RESPROUT_OPTIMIZED is one of 0, 1, 2, 3, not 'x'"


def test_a_module_that_is_not_compiled_cannot_be_asked_for(tmp_path: Path) -> None:
    done = build(tmp_path, "resprout.core.contract", CC=sys.executable)
    assert "resprout.core.contract is not compiled" in done.stderr


@pytest.mark.timeout(600)
@pytest.mark.skipif(not SOAKING, reason="it compiles for a minute: `make soak` runs it")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler (cc) here")
@pytest.mark.skipif(importlib.util.find_spec("setuptools") is None, reason="there is no setuptools here")
def test_a_run_has_the_same_digest_with_modules_that_are_compiled(tmp_path: Path) -> None:
    done = build(tmp_path, ",".join(SOME), RESPROUT_OPTIMIZED="0")
    assert done.returncode == 0, done.stderr
    tree = tmp_path / "lib"
    for name in SOME:
        assert list(tree.glob(f"{name.replace('.', '/')}.*.so")), f"{name} is compiled"
    assert digest(tree) == digest(ROOT / "src")
