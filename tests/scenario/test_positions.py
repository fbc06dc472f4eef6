import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.scenario.source import TomlPath, find_positions
from tests.soak import cases


def test_tables_and_keys_have_the_line_they_begin_on() -> None:
    text = 'name = "x"\n\n[options] # with [brackets]\nf = 1\n\n[[broker]]\nname = "b0"\n[[broker]]\nname = "b1"\n'
    assert find_positions(text) == {
        ("name",): 1,
        ("options",): 3,
        ("options", "f"): 4,
        ("broker",): 6,
        ("broker", 0): 6,
        ("broker", 0, "name"): 7,
        ("broker", 1): 8,
        ("broker", 1, "name"): 9,
    }


def test_elements_of_arrays_and_inline_tables_have_lines_of_their_own() -> None:
    text = 'a = [\n  "x", # one\n  { b = 1, c = [\n    2 ] },\n]\nd = 1979-05-27 07:32:00\n'
    assert find_positions(text) == {
        ("a",): 1,
        ("a", 0): 2,
        ("a", 1): 3,
        ("a", 1, "b"): 3,
        ("a", 1, "c"): 3,
        ("a", 1, "c", 0): 4,
        ("d",): 6,
    }


def test_tables_inside_arrays_of_tables_belong_to_the_latest_one() -> None:
    text = "[[w]]\n[w.mix]\na = 1\n[[w]]\n[w.mix]\na = 2\n[[w.more]]\n[[w.more]]\nb = 3\n"
    lines = find_positions(text)
    assert lines["w", 0, "mix", "a"] == 3
    assert lines["w", 1, "mix", "a"] == 6
    assert lines["w", 1, "more", 1, "b"] == 9


@pytest.mark.parametrize(
    "value",
    ['"""\na = 1\n[x]\n"""', "'''\nb = 2\n'''", '"a \\" # b = 1"', "'\\'", '""""quoted""""', "''''q'''''", '""', "''",
     '"""\\\n   x"""', "[ [ ], [\n] ]", "{}", "0x1F", "-inf", '{ "a.b" = 1, c.d = "}" }'],
)  # fmt: skip
def test_no_kind_of_value_leads_the_scanner_astray(value: str) -> None:
    text = f"first = {value}\nlast = true\r\n"
    tomllib.loads(text)
    assert find_positions(text)["last",] == text.count("\n")


def test_quoted_and_dotted_keys_are_the_keys_that_tomllib_sees() -> None:
    lines = find_positions('"a b".c . \'d\' = 1\n"\\u0041" = 2\n[x . "y.z"]\nw = 1\n')
    assert lines["a b", "c", "d"] == 1
    assert lines["A",] == 2
    assert lines["x", "y.z", "w"] == 4


_words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)
_keys = st.one_of(st.from_regex(r"[A-Za-z0-9_-]{1,5}", fullmatch=True), _words)
_values = st.recursive(
    st.one_of(_words, st.integers(-5, 5), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_keys, inner, max_size=3)),
    max_leaves=6,
)


def _written(value: Any, newline: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + newline + ("," + newline).join(_written(inner, newline) for inner in value) + newline + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_written(key, '')} = {_written(inner, '')}" for key, inner in value.items()) + "}"
    return str(value)


def _paths(value: Any, path: TomlPath = ()) -> set[TomlPath]:
    found: set[TomlPath] = {path} if path else set()
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            found |= _paths(inner, (*path, key))
    return found


@settings(deadline=None, derandomize=True, max_examples=cases(50, 150))
@given(st.lists(st.dictionaries(_keys, _values, max_size=3), max_size=3), st.sampled_from(["", "\n", " # note ]}\n"]))
def test_everything_that_tomllib_reads_has_a_line(tables: list[dict[str, Any]], newline: str) -> None:
    text = ""
    for table in tables:
        text += "[[t]]\n" + "".join(f"{_written(k, '')} = {_written(v, newline)}\n" for k, v in table.items())
    lines = find_positions(text)
    assert set(lines) == _paths(tomllib.loads(text))
    assert all(1 <= line <= text.count("\n") for line in lines.values())
