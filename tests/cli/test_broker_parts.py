"""Small parts of the commands, without processes."""

import contextlib
import io
import subprocess
import sys

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.cli.arguments import parse_attributes, parse_value
from resprout.cli.loop import as_text
from resprout.cli.main import SECTIONS, VERBS, command, run
from resprout.core.errors import UsageError, escape
from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from tests.patience import PATIENCE_S
from tests.soak import cases


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("120", 120), ("-7", -7), ("+7", 7), ("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("-2E-1", -0.2),
        ("true", True), ("false", False), ("True", "True"), ("Porto", "Porto"), ("", ""), ("nan", "nan"),
        ("inf", "inf"), ("1_000", "1_000"), ("0x10", "0x10"), ("'120'", "120"), ('"true"', "true"),
        ("''", ""), ("'", "'"), ("a=b", "a=b"), ("٣", "٣"),
    ],
)  # fmt: skip
def test_values_are_what_they_look_like(text: str, value: object) -> None:
    found = parse_value(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("text", ["99999999999999999999", "1" * 30])
def test_whole_numbers_that_fit_nowhere_are_not_silently_changed(text: str) -> None:
    with pytest.raises(UsageError, match="64 bits"):
        parse_attributes([f"amount={text}"])


def test_an_attribute_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="'a' is given twice"):
        parse_attributes(["a=1", "a=2"])


@given(st.binary(max_size=60))
@settings(deadline=None, max_examples=cases(70, 200), derandomize=True)
def test_any_payload_is_one_printable_line(payload: bytes) -> None:
    message = Message("p", 1, 1, "a/b", (), Guarantee.CAUSAL, {}, payload, 0)
    line = escape(as_text(message))
    assert len(line.splitlines()) == 1
    assert all(letter.isprintable() or letter == "\t" for letter in line)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run([verb, "--help"]) == 0
    if verb in ("broker", "up", "pub", "sub", "forget"):
        assert f"resprout {verb}" in out.getvalue().partition("\n")[2]


@pytest.mark.parametrize("verb", VERBS)
def test_the_summary_of_a_verb_starts_its_help(verb: str) -> None:
    found = command.get_command(click.Context(command), verb)
    assert found is not None and found.help is not None
    assert " ".join(found.help.split()).startswith(VERBS[verb].summary)


def test_help_lists_every_verb_without_importing_one() -> None:
    program = (
        "import sys\nfrom resprout.cli.main import run\nassert run(['--help']) == 0\nsys.exit('asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=PATIENCE_S)
    listed = " ".join(done.stdout.decode().split())
    for name, verb in VERBS.items():
        assert f" {name} {verb.summary}" in listed
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(VERBS)


def test_commands_that_talk_do_not_load_what_only_traces_need() -> None:
    program = (
        "import sys\nfrom resprout.cli.main import run\n"
        "for verb in ('broker', 'up', 'pub', 'sub', 'forget'): run([verb, '--help'])\n"
        "sys.exit('pyarrow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=PATIENCE_S)


def test_full_collections_are_rare_in_a_process_that_has_started() -> None:
    """A log of a broker that grows and shrinks caused one after the other, each of which stops the broker."""
    program = """
import gc
from resprout.cli.loop import collect_garbage_rarely

def grow_and_shrink():
    full = []
    gc.callbacks.append(lambda phase, info: full.append(info) if info["generation"] == 2 else None)
    for _ in range(3):
        log = [[number] for number in range(300_000)]
        del log
    del gc.callbacks[-1]
    return len(full) // 2

before = grow_and_shrink()
collect_garbage_rarely()
print(before > 0, grow_and_shrink(), gc.get_freeze_count() > 1_000)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "True 0 True\n", done.stderr
