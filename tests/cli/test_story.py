"""What is told of a run while it runs."""

from resprout.cli.run import Story
from resprout.scenario.load import parse_scenario

TREE = """
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
latency = "100ms"
[[broker]]
name = "b2"
parent = "b0"
latency = "30ms"
[[broker]]
name = "b3"
parent = "b1"
latency = "20ms"
[[broker]]
name = "b4"
parent = "b1"
latency = "50ms"
[[client]]
name = "c1"
broker = "b1"
"""


def told(*rows: tuple[float, str, str, str | None]) -> list[str]:
    lines: list[str] = []
    story = Story(parse_scenario(TREE), lines.append, {"b1": 71, "b0": 70, "c1": 81}.get)
    for seconds, node, kind, detail in rows:
        story.hear(int(seconds * 1e6), node, kind, detail)
    return lines


def test_a_repair_is_told_from_the_kill_to_the_last_client() -> None:
    assert told(
        (5.0, "b1", "crash", None),
        (5.05, "b0", "suspect", "b1"),
        (5.05, "b0", "repair_begin", "b1"),
        (5.2, "b4", "repair_begin", "b1"),
        (5.35, "b0", "repair_end", "b1"),
        (5.5, "b4", "repair_end", "b1"),
        (5.4, "c1", "note", "re-attached to b0"),
    ) == [
        "  5.0 s  b1 is killed (SIGKILL, pid 71)",
        "  5.0 s  repair begins: b0 takes over b3 and b4",
        "  5.3 s  b1 repaired in 0.35 s: detection 0.05 s + 1.0 round trips",
        "  5.4 s  c1: re-attached to b0",
    ]


def test_the_tree_is_followed_through_repairs() -> None:
    lines = told(
        (1.0, "b1", "crash", None), (1.0, "b0", "repair_begin", "b1"), (1.3, "b0", "repair_end", "b1"),
        (2.0, "b0", "crash", "host"), (5.0, "b2", "repair_begin", "b0"), (5.18, "b2", "repair_end", "b0"),
        (6.0, "b1", "joined", "b4"),
        (7.0, "b4", "leave", None), (7.0, "b2", "repair_begin", "b4"), (7.4, "b2", "repair_end", "b4"),
    )  # fmt: skip
    assert lines[3] == "  2.0 s  the machine of b0 falls silent (SIGSTOP, pid 70)"
    assert lines[4] == "  5.0 s  repair begins: b2 takes over b3 and b4"
    assert lines[5] == "  5.2 s  b0 repaired in 3.18 s: detection 3.00 s + 0.5 round trips"
    assert lines[6] == "  6.0 s  b1 has joined below b4"
    assert lines[8] == "  7.0 s  repair begins: b2 takes over b1"


def test_several_that_die_together_are_one_repair() -> None:
    lines = told(
        (1.0, "b1", "crash", None), (1.01, "b0", "crash", None),
        (1.1, "b2", "repair_begin", "b0"), (1.15, "b3", "repair_begin", "b1"), (1.2, "b2", "repair_begin", "b0 b1"),
        (1.46, "b2", "repair_end", "b0 b1"), (1.5, "b3", "repair_end", "b0 b1"),
    )  # fmt: skip
    assert lines[2:] == [
        "  1.1 s  repair begins: b2 takes over b1",
        "  1.2 s  repair begins: b2 takes over b3 and b4",
        "  1.5 s  b0 and b1 repaired in 0.46 s: detection 0.10 s + 1.0 round trips",
    ]


def test_other_faults_have_a_line_each_and_unknown_rows_have_none() -> None:
    lines = told(
        (1.0, "b1", "freeze", None), (2.0, "b1", "unfreeze", None), (3.0, "b1", "fenced", "by b0"),
        (4.0, "b0", "cut", "b2"), (5.0, "b0", "heal", "b2"), (6.0, "world", "heal", None),
        (7.0, "b1", "recover", "empty disk"), (7.0, "b2", "recover", "begins the network anew"),
        (8.0, "b9", "join", None), (9.0, "b2", "partition", None),
        (9.0, "c1", "deliver", None), (9.0, "b0", "link_refused", "b1: no"),
    )  # fmt: skip
    assert [line[9:] for line in lines] == [
        "b1 is frozen (SIGSTOP, pid 71)",
        "b1 goes on (SIGCONT, pid 71)",
        "nothing passes between b0 and b2 any more",
        "b0 and b2 reach each other again",
        "every cut is healed",
        "b1 is started again with an empty disk",
        "b2 is started again, and begins the network anew",
        "b9 is started, to join",
        "b2 is on the far side of a cut",
    ]
