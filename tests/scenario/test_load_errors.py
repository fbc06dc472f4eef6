"""Every way in which a file can be wrong is refused with its line and one reason: see bad_scenarios.txt."""

from pathlib import Path

import pytest

from resprout.core.guarantee import Guarantee
from resprout.scenario.load import load_scenario, parse_scenario
from resprout.scenario.source import ScenarioError
from resprout.stacks.stack import find_stack

NETWORK = """\
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "c0"
broker = "b1"
subscribe = ["t/#"]
"""
RANDOM = NETWORK + '[[workload]]\nkind = "random"\ntopics = ["t/a"]\n'
BANK = NETWORK + '[[workload]]\nkind = "bank"\ntopics = ["t/a"]\n'


def refused(text: str) -> str:
    """The reason, once the place has proved right."""
    line = next(number for number, row in enumerate(text.split("\n"), 1) if "<-" in row)
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text.replace("<-", "#"), "x.toml")
    complaint = str(caught.value)
    assert "\n" not in complaint
    place, _, reason = complaint.partition(": ")
    assert place == f"x.toml:{line}", complaint
    return reason


def cases() -> list[tuple[str, str, str]]:
    """Name, reason, text."""
    written = Path(__file__).with_name("bad_scenarios.txt").read_text()
    found = []
    for case in written.split("\n=== ")[1:]:
        name, reason, text = case.split("\n", 2)
        for word, meaning in (("@network\n", NETWORK), ("@random\n", RANDOM), ("@bank\n", BANK)):
            text = text.replace(word, meaning)
        found.append((name, reason.removeprefix("!!! "), text))
    return found


@pytest.mark.parametrize(("reason", "text"), [pytest.param(r, t, id=name) for name, r, t in cases()])
def test_a_bad_file_is_refused_with_the_line_and_the_reason(reason: str, text: str) -> None:
    assert reason in refused(text)


def test_a_guarantee_that_the_stack_does_not_offer_is_refused_at_its_share() -> None:
    missing = [g.label for g in Guarantee if g not in find_stack("resprout").guarantees]
    for label in missing:
        text = f"{RANDOM}mix = {{ {label} = 1.0 }} <-\n"
        assert f"the stack does not offer '{label}'; it offers " in refused(text)


def test_every_guarantee_that_the_stack_offers_is_let_pass() -> None:
    for guarantee in find_stack("resprout").guarantees:
        (workload,) = parse_scenario(f"{RANDOM}mix = {{ {guarantee.label} = 1 }}\n").workloads
        assert workload.mix.shares == ((guarantee, 1.0),)


def test_an_empty_file_says_what_it_lacks() -> None:
    with pytest.raises(ScenarioError, match=r"x\.toml: there is no broker"):
        parse_scenario("", "x.toml")


def test_text_that_is_not_utf_8_or_nested_beyond_reason_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b'name = "\xff"\n')
    with pytest.raises(ScenarioError, match=r"x\.toml: not UTF-8"):
        load_scenario(file)
    file.write_text("name = " + "[" * 100_000 + "]" * 100_000)
    with pytest.raises(ScenarioError, match=r"x\.toml: nested too deeply"):
        load_scenario(file)


def test_a_word_far_from_all_choices_gets_the_choices_instead_of_a_guess() -> None:
    assert refused('[topology]\nkind = "hypercube" <-\nbrokers = 8\n') == (
        "topology: unknown kind 'hypercube'; it is one of tree, chain, star, random, flat"
    )


@pytest.mark.parametrize(("kind", "limit"), [("workload", 1_000), ("fault", 10_000)])
def test_there_is_a_limit_to_what_a_file_may_list(kind: str, limit: int) -> None:
    text = NETWORK + f"[[{kind}]] <-\n" + f"[[{kind}]]\n" * limit
    assert refused(text) == f"{limit + 1} {kind}s; at most {limit}"
