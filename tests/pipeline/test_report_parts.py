"""The small parts of the page: templates, numbers with units, axes, looks."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.pipeline.report.charts import LOOKS, across, log_marks, looks_of
from resprout.pipeline.report.figures import FigureAxis, Shape
from resprout.pipeline.report.measures import Quantity, legible, style_for
from resprout.pipeline.report.page import environment, source_of
from resprout.pipeline.report.page_tables import PageCell, PageRow, PageTable, header

GENTLE = settings(deadline=None, derandomize=True, max_examples=100)


def table_of(text: str, name: str = "plain") -> str:
    cell = PageCell(text, scope="row", look=text, strong=text)
    table = PageTable(text, text, header(name), (PageRow((cell,), id=text),))
    return str(environment().get_template("parts.html").module.table(table))  # type: ignore[attr-defined]


def test_letters_that_no_page_can_hold_are_escaped() -> None:
    text = legible("a\x00b\ud800c\u202ed\x1b[31m\n")
    assert text == "a\\x00b\\ud800c\\u202ed\\x1b[31m\n"
    assert "a\\x00b" in table_of("a\x00b")


@GENTLE
@given(st.text())
def test_whatever_a_name_holds_it_stays_a_text(name: str) -> None:
    seen: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append(tag)
            seen.extend(key for key, _ in attrs)

        def handle_comment(self, data: str) -> None:
            seen.append("comment")

    Reader().feed(table_of("plain"))
    wanted, seen = seen, []
    Reader().feed(table_of(name or "x", name))
    assert seen == wanted


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([465_000, 1_675_000], ["465\u00a0ms", "1,675\u00a0ms"]),
        ([46_858_000, 32_054_000], ["46.9\u00a0s", "32.1\u00a0s"]),
        ([155, 9_999], ["155\u00a0µs", "9,999\u00a0µs"]),
        ([250_300, 999_900], ["250\u00a0ms", "1,000\u00a0ms"]),
        ([0, 0], ["0\u00a0µs", "0\u00a0µs"]),
    ],
)
def test_times_that_are_compared_share_a_unit_and_decimals(values: list[int], texts: list[str]) -> None:
    style = style_for(Quantity.TIME_US, values)
    assert [style.text(value) for value in values] == texts


def test_a_share_of_nearly_all_is_not_written_as_all() -> None:
    style = style_for(Quantity.SHARE, [1.0, 0.9993])
    assert [style.text(value) for value in (1.0, 0.9993)] == ["100.00\u00a0%", "99.93\u00a0%"]
    assert style_for(Quantity.SHARE, [1.0]).text(1.0) == "100\u00a0%"


def test_a_small_number_beside_a_large_one_is_not_written_as_nothing() -> None:
    style = style_for(Quantity.COUNT, [0.034, 12.0])
    assert [style.number(value) for value in (0.034, 12.0, None)] == ["0.034", "12.000", "–"]


@GENTLE
@given(st.floats(min_value=1e-3, max_value=1e9), st.floats(min_value=10, max_value=1e6))
def test_a_logarithmic_scale_holds_its_values_between_round_marks(smallest: float, factor: float) -> None:
    marks = log_marks(smallest, smallest * factor)
    assert marks[0] <= smallest * (1 + 1e-6)
    assert marks[-1] >= smallest * factor * (1 - 1e-6)
    assert marks == sorted(set(marks)) and 2 <= len(marks) <= 13


def places(labels: list[str], axis: str = "a") -> tuple[list[Any], str]:
    found = across(FigureAxis(axis, axis), labels, Shape.LINES)
    return list(found.places.values()), found.channel.to_dict()["scale"]["type"]


def test_labels_that_are_numbers_stand_by_their_size_and_words_evenly() -> None:
    assert places(["0", "1", "3"]) == ([0, 1, 3], "linear")
    assert places(["1", "10", "100", "1000"]) == ([1, 10, 100, 1000], "log")
    for words in (["before", "during", "after"], ["7"], ["1", "1.0"], ["10Mbit", "100Mbit"]):
        assert places(words) == (words, "point")


def test_percentiles_stand_the_further_to_the_right_the_more_nines_they_have() -> None:
    found, scale = places(["50", "90", "99", "99.9"], "percentile")
    assert found == pytest.approx([2, 10, 100, 1000]) and scale == "log"


def test_a_stack_looks_the_same_whoever_stands_beside_it() -> None:
    assert looks_of(["resprout", "ginger"]) == list(LOOKS[:2])
    assert looks_of(["ginger"]) == [LOOKS[1]]
    assert looks_of(["ginger", "locamu"]) == list(LOOKS[1:3])
    assert looks_of(["median", "longest"]) == list(LOOKS[:2])


def test_no_two_looks_differ_in_their_colour_alone() -> None:
    for names in ("colour", "fill", "dash", "shape", "sign"):
        assert len({getattr(look, names) for look in LOOKS}) == len(LOOKS)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
def test_texts_and_marks_stand_out_from_their_ground(number: int) -> None:
    block = re.findall(r":root \{(.*?)\}", source_of("style.css"), re.DOTALL)[number]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", block))
    for text, ground in (
        *((text, ground) for text in ("ink", "quiet", "link") for ground in ("ground", "raised")),
        *((word, f"{word}-ground") for word in ("good", "known", "bad")),
        *(("ink", f"{word}-ground") for word in ("good", "known", "bad")),
    ):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert all(contrast(colours[f"c{look}"], colours["ground"]) >= 3 for look in range(len(LOOKS)))
