"""Packages that bring stacks of their own, made in a folder: what a researcher would install."""

from pathlib import Path

import pytest

SEATS = '''
"""The default stack, whose brokers tell which seats they were given."""

import msgspec

from resprout.core.contract import Note
from resprout.stacks.resprout import RESPROUT, ResproutBroker


class Told:
    def __init__(self, seat, options, rng):
        self._seat = seat
        self._broker = ResproutBroker(seat, options, rng)

    def start(self, now_us):
        seat = self._seat
        told = Note("seat", {"detail": f"{seat.name} of {seat.site or 'no site'} knows {' '.join(seat.contacts)}"})
        return [*self._broker.start(now_us), told]

    def __getattr__(self, name):
        return getattr(self._broker, name)


STACK = msgspec.structs.replace(RESPROUT, name="seats", make_broker=Told)
'''


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str, **stacks: str) -> None:
    """A package of one module, found by this process and its children; `stacks`: entry points, name to object."""
    (folder / f"{name}.py").write_text(code)
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    points = "".join(f"{stack} = {place}\n" for stack, place in stacks.items())
    (about / "entry_points.txt").write_text(f"[resprout.stacks]\n{points}")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
