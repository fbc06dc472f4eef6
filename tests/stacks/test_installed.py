"""Stacks that live in other packages are found by entry point."""

import logging
from pathlib import Path

import pytest

from resprout.core.errors import UsageError
from resprout.scenario.load import parse_scenario
from resprout.sim.run import run_scenario
from resprout.stacks.resprout import RESPROUT
from resprout.stacks.stack import DEFAULT, all_stacks, find_stack
from resprout_lab import SYSTEMS
from tests.stacks.strange_package import SEATS, install


def test_a_stack_of_another_package_is_found_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "strange_seats", SEATS, seats="strange_seats:STACK")
    assert find_stack("seats").name == "seats"
    assert find_stack("seats") is find_stack("seats")
    assert list(all_stacks()) == [DEFAULT, *sorted((*SYSTEMS, "seats"))]
    text = 'stack = "seats"\n[[broker]]\nname = "b0"\n[[broker]]\nname = "b1"\nparent = "b0"\n'
    rows = run_scenario(parse_scenario(text)).rows
    assert [row.detail for row in rows if row.kind == "seat"] == ["b0 of no site knows ", "b1 of no site knows b0"]


def test_one_that_cannot_be_loaded_is_told_in_a_line_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(
        tmp_path, monkeypatch, "strange_mixed", f"{SEATS}\nNUMBER = 7\n",
        seats="strange_mixed:STACK", number="strange_mixed:NUMBER", other="strange_mixed:STACK",
        nothing="strange_mixed:NOTHING", absent="strange_absent:STACK",
    )  # fmt: skip
    with caplog.at_level(logging.WARNING, "resprout"), pytest.raises(UsageError) as unknown:
        find_stack("unheard")
    known = ", ".join((DEFAULT, *sorted((*SYSTEMS, "seats"))))
    assert str(unknown.value) == f"unknown stack 'unheard'; there is {known}"
    assert [record.getMessage().partition(" cannot be loaded: ")[2] for record in caplog.records] == [
        "ModuleNotFoundError: No module named 'strange_absent'",
        "AttributeError: module 'strange_mixed' has no attribute 'NOTHING'",
        "it is no Stack, but a int",
        "the stack calls itself 'seats'",
    ]
    with pytest.raises(UsageError, match=r"^the stack 'absent' .strange_absent:STACK. cannot be loaded: Module"):
        find_stack("absent")


def test_nobody_takes_the_name_of_a_stack_that_is_built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "raise RuntimeError('nobody asks for this')"
    install(tmp_path, monkeypatch, "strange_thief", code, resprout="strange_thief:STACK")
    assert find_stack("resprout") is RESPROUT


def test_two_packages_that_bring_one_stack_are_both_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "strange_one", SEATS, seats="strange_one:STACK")
    install(tmp_path, monkeypatch, "strange_two", SEATS, seats="strange_two:STACK")
    with pytest.raises(UsageError, match="brought by two packages: strange_one:STACK and strange_two:STACK"):
        find_stack("seats")
