from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core import limits
from resprout.filters.like import check_pattern, fixes_only_the_beginning, literal_prefix, matcher
from tests.filters import reference
from tests.soak import cases

SETTINGS = settings(deadline=None, derandomize=True, max_examples=cases(330, 1_000))

texts = st.text("ab%\\_", max_size=8)
patterns = st.lists(st.sampled_from(["a", "b", "%", "_", "\\%", "\\_", "\\\\", "\\a"]), max_size=7).map("".join)


@SETTINGS
@given(patterns, texts)
def test_matching_agrees_with_the_definition(pattern: str, text: str) -> None:
    assert matcher(pattern)(text) is reference.like(text, pattern)


@SETTINGS
@given(patterns, texts)
def test_what_matches_begins_with_the_literal_prefix(pattern: str, text: str) -> None:
    begins = text.startswith(literal_prefix(pattern))
    if reference.like(text, pattern):
        assert begins
    if fixes_only_the_beginning(pattern):
        assert reference.like(text, pattern) is begins


def test_an_escape_needs_something_to_escape() -> None:
    assert check_pattern("a\\")
    assert check_pattern("\\\\\\")
    assert not check_pattern("\\\\")
    assert not check_pattern("\\%")


def test_patterns_made_to_backtrack_take_one_step_per_character() -> None:
    """Counted, not timed: the matcher reads each character of the text once, in order."""

    class Counted(str):
        steps = 0

        def __iter__(self):  # type: ignore[no-untyped-def]
            for character in str.__iter__(self):
                Counted.steps += 1
                yield character

    text = Counted("a" * limits.ATTRIBUTE_TEXT_BYTES)
    for pattern in ("%a" * 1000 + "b", "%" + "_a" * 400 + "b%", "%a_" * 500 + "%b"):
        Counted.steps = 0
        assert matcher(pattern)(text) is False
        assert Counted.steps <= len(text)


@SETTINGS
@given(patterns, st.text("ab", max_size=14))
def test_patterns_with_many_wild_segments_agree_with_the_definition(pattern: str, text: str) -> None:
    """These are matched by bits, and the others by searching for one segment after the other."""
    assert matcher("%_" * 9 + pattern)(text) is reference.like(text, "%_" * 9 + pattern)
