"""The image of deploy/Containerfile is built from packages that are pinned with their hashes."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pinned(lock: str) -> dict[str, str]:
    """Versions by package, of a lock file of which each package has a hash."""
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    entries = re.findall(r"^([a-z0-9-]+)==([^ ;]+).*\\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE)), "each line is a pinned package"
    return dict(entries)


def test_the_container_installs_only_what_is_pinned() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text().replace("\\\n", "")
    installs = re.findall(r"pip install ([^&\n]*)", text)
    assert len(installs) == 2
    assert "--require-hashes -r /build/requirements/container.lock" in installs[0]
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(installs[1].split())
    assert re.search(r"^ARG BASE=python:\d+\.\d+\.\d+-slim-\w+$", text, re.MULTILINE), "the base image has a version"


def test_the_lock_of_the_container_is_that_of_development() -> None:
    """What is tested is what runs; `make lock` makes both."""
    container, development = pinned("container"), pinned("dev")
    assert container.items() <= development.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {re.split(r"[><=;]", line)[0] for line in project["project"]["dependencies"]}
    wanted |= {re.split(r"[><=;]", line)[0] for line in project["build-system"]["requires"]}
    assert wanted <= set(container)
