"""The metadata of a release: with the address of the repository, an index shows links that work."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)]+)\)")


def metadata(folder: Path, address: str) -> str:
    words = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(folder)]
    environment = os.environ | {"RESPROUT_URL": address}
    subprocess.run(words, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
    return (folder / "resprout.egg-info" / "PKG-INFO").read_text()


def test_links_are_absolute_once_the_address_is_known(tmp_path: Path) -> None:
    text = metadata(tmp_path, "https://example.org/resprout/")
    assert "Project-URL: Source, https://example.org/resprout\n" in text
    assert LINK.findall(text) == []
    for path in LINK.findall((ROOT / "README.md").read_text()):
        assert f"(https://example.org/resprout/blob/v0.1.0/{path})" in text


def test_no_address_is_made_up(tmp_path: Path) -> None:
    text = metadata(tmp_path, "")
    assert "Project-URL" not in text
    assert "](docs/tutorial.md)" in text
