"""The small parts of the page: markup, numbers with units, scales."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.pipeline.report.marks import LOOKS, looks_of
from resprout.pipeline.report.markup import element, joined
from resprout.pipeline.report.quantities import Quantity, style_for
from resprout.pipeline.report.scales import linear_scale, log_scale, places_of
from resprout.pipeline.report.style import CSS

GENTLE = settings(deadline=None, derandomize=True, max_examples=100)


def test_texts_are_escaped_and_markup_is_not() -> None:
    inner = element("b", "<script>alert(1)</script> & more")
    assert element("p", inner, "'\"") == ("<p><b>&lt;script&gt;alert(1)&lt;/script&gt; &amp; more</b>&#x27;&quot;</p>")


def test_attributes_are_escaped_named_and_left_out() -> None:
    assert element("td", class_='"><script>', colspan=2, open=True, hidden=False, title=None) == (
        '<td class="&quot;&gt;&lt;script&gt;" colspan="2" open></td>'
    )


def test_letters_that_no_page_can_hold_are_replaced() -> None:
    text = joined("a\x00b\ud800c\u202ed\x1b[31m\n")
    assert text == "a?b?c?d?[31m\n".replace("?", "\N{REPLACEMENT CHARACTER}")
    assert text.encode().decode() == text


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

    Reader().feed(element("p", name, title=name))
    assert seen == ["p", "title"]


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
@given(st.floats(min_value=1e-3, max_value=1e12), st.floats(min_value=0, max_value=1))
def test_a_linear_scale_holds_its_values_between_few_round_ticks(largest: float, share: float) -> None:
    scale = linear_scale(largest)
    assert scale.low == 0
    assert scale.high >= largest * (1 - 1e-6)
    assert 2 <= len(scale.ticks) <= 7
    assert 0 <= scale.share(share * largest) <= 1 + 1e-6


@GENTLE
@given(st.floats(min_value=1e-3, max_value=1e9), st.floats(min_value=1, max_value=1e6))
def test_a_logarithmic_scale_holds_its_values(smallest: float, factor: float) -> None:
    scale = log_scale(smallest, smallest * factor)
    assert scale.low <= smallest * (1 + 1e-6)
    assert scale.high >= smallest * factor * (1 - 1e-6)
    assert list(scale.ticks) == sorted(set(scale.ticks))
    assert -1e-6 <= scale.share(smallest) <= scale.share(smallest * factor) <= 1 + 1e-6


def test_numbers_of_different_size_stand_evenly_and_words_too() -> None:
    assert places_of(["1", "10", "100", "1000"]) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert places_of(["0", "1", "3"]) == pytest.approx([0, 1 / 3, 1])
    assert places_of(["before", "during", "after"]) == pytest.approx([0, 0.5, 1])
    assert places_of(["7"]) == [0.5]


def test_a_stack_looks_the_same_whoever_stands_beside_it() -> None:
    assert looks_of(["resprout", "ginger"]) == [0, 1]
    assert looks_of(["ginger"]) == [1]
    assert looks_of(["ginger", "locamu"]) == [1, 2]
    assert looks_of(["median", "longest"]) == [0, 1]


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
    block = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)[number]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", block))
    for text, ground in (
        *((text, ground) for text in ("ink", "quiet", "link") for ground in ("ground", "raised")),
        *((word, f"{word}-ground") for word in ("good", "known", "bad")),
        *(("ink", f"{word}-ground") for word in ("good", "known", "bad")),
    ):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert all(contrast(colours[f"c{look}"], colours["ground"]) >= 3 for look in range(LOOKS))
