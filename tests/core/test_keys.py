"""Keys of the publication's own topic and of others."""

from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.bundle import pairs_of, topics_of


def test_a_plain_key_belongs_to_the_topic_of_the_publication() -> None:
    assert pairs_of("t", ("a", "b")) == (("t", "a"), ("t", "b"))
    assert topics_of("t", ("a", "b")) == ("t",)


def test_a_pair_counts_once_however_it_was_written() -> None:
    assert pairs_of("t", ("a", "t#a", "b")) == (("t", "a"), ("t", "b"))


def test_the_first_sign_divides_topic_and_key() -> None:
    assert pairs_of("t", ("u/v#a", "u#x#y")) == (("u/v", "a"), ("u", "x#y"))


def test_topics_are_named_once_their_own_first() -> None:
    assert topics_of("t", ("u#a", "u#b", "t#c", "k", "v#d")) == ("t", "u", "v")


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(["t", "u", "v"]), st.sampled_from(["a", "b", "a#b"]))))
def test_topics_are_those_of_the_pairs_and_the_own_one(pairs: list[tuple[str, str]]) -> None:
    keys = [f"{topic}#{key}" for topic, key in pairs]
    assert pairs_of("t", keys) == tuple(dict.fromkeys(pairs)), "each once"
    assert set(topics_of("t", keys)) == {"t", *(topic for topic, _ in pairs)}
