"""The checks of the documents, on a house of three files in which one thing after the other is wrong."""

from pathlib import Path

import pytest

from resprout.core.contract import word_of
from resprout.overlay.messages import Gone
from resprout_lab.ginger.messages import NodeGone
from tests.docs import decisions, listed, messages, privates, prose

WIRE = """# On the wire

| tag | frame | said |
|---|---|---|
| 1 | `Hello` | first |

## Messages

- 16 to 47, `core/limits.py`: 16 `Ask`, 17
  `Tell`.

## Bundles

Of 18 `Columns` nobody speaks here.
"""
PROTOCOL = """# The protocol

## Messages

| file | tags | what is said |
|---|---|---|
| `core/limits.py` | 16 | `Ask` (a question) |
| | 17-20 | `Tell` |

## Next
"""
INDEX = """# Decisions

| record | decision |
|---|---|
| [1](01-first.md) | The first |
| [2](02-second.md) | The second |
"""
FORMER_INDEX = """# Former records

| former record | title | today |
|---|---|---|
| [0001](0001-old.md) | The old one | [2](../decisions/02-second.md) |
"""
FILES = {
    "docs/wire.md": WIRE,
    "docs/protocol.md": PROTOCOL,
    "docs/decisions/README.md": INDEX,
    "docs/decisions/01-first.md": "# 1: The first\n",
    "docs/decisions/02-second.md": "# 2: The second\n\nAs in [decision 1](01-first.md).\n",
    "docs/history/README.md": FORMER_INDEX,
    "docs/history/0001-old.md": "# 0001: The old one\n\n`gone.py`, [itself](0001-old.md), [gone](../gone.md).\n",
    "docs/client.md": "# Client\n\nSee [here](wire.md#on-the-wire), `core/clock.py` and `well.py`.\n",
    "src/resprout/alone.py": "",
    "src/resprout/core/clock.py": "",
    "src/resprout/core/__init__.py": "",
    "src/resprout/core/limits.py": (
        "class Ask(ProtocolMessage, frozen=True, tag=16):\n    pass\n\n\n"
        "class Tell(\n    ProtocolMessage, tag=17\n):\n    pass\n\n\n"
        "class _Kept(msgspec.Struct, tag=2):\n    pass\n"
    ),
    "src/resprout/core/deep/well.py": "class Hello(msgspec.Struct, Generic[M], tag=1, array_like=True):\n    pass\n",
}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def change(house: Path, name: str, old: str, new: str) -> None:
    text = (house / name).read_text()
    assert old in text
    (house / name).write_text(text.replace(old, new))


def found(house: Path) -> list[str]:
    return [line for check in (messages, decisions, prose) for line in check.complaints(house)]


def test_documents_that_are_right_are_not_complained_about(house: Path) -> None:
    assert found(house) == []


def test_a_file_that_is_named_and_does_not_exist_is_found(house: Path) -> None:
    (house / "src/resprout/core/clock.py").rename(house / "src/resprout/core/deep/clock.py")
    assert found(house) == ["docs/client.md: names core/clock.py, which does not exist"]


def test_a_function_that_is_named_with_its_file_and_does_not_exist_is_found(house: Path) -> None:
    (house / "src/resprout/core/steps.py").write_text(
        "class Step:\n    def begin(self):\n        pass\n\n\nasync def run():\n    pass\n"
    )
    with (house / "docs/client.md").open("a") as file:
        file.write("\n`core/steps.py:Step.begin`, `core/steps.py:Step`, `core/steps.py:run`\n")
    assert found(house) == []
    with (house / "docs/client.md").open("a") as file:
        file.write("\n`core/steps.py:Step.end`, `core/steps.py:begin`, `core/gone.py:run`\n")
    assert found(house) == [
        "docs/client.md: names core/steps.py:Step.end, which does not exist",
        "docs/client.md: names core/steps.py:begin, which does not exist",
        "docs/client.md: names core/gone.py:run, which does not exist",
    ]


def test_a_message_that_is_not_listed_is_found_in_both_documents(house: Path) -> None:
    with (house / "src/resprout/core/limits.py").open("a") as file:
        file.write("\n\nclass Shout(ProtocolMessage, tag=21):\n    pass\n")
    assert found(house) == ["docs/wire.md: does not list 21 Shout", "docs/protocol.md: does not list 21 Shout"]


def test_a_tag_that_is_another_messages_is_found(house: Path) -> None:
    change(house, "docs/wire.md", "17\n  `Tell`", "18\n  `Tell`")
    assert found(house) == [
        "docs/wire.md: does not list 17 Tell",
        "docs/wire.md: lists 18 Tell, which does not exist",
    ]


def test_a_message_that_is_gone_is_found_in_the_protocol(house: Path) -> None:
    change(house, "docs/protocol.md", "`Tell`", "`Tell` `Whisper`")
    assert found(house) == ["docs/protocol.md: lists Whisper, which core/limits.py does not have at 17-20"]


def test_a_message_in_the_wrong_row_of_the_protocol_is_found(house: Path) -> None:
    change(house, "docs/protocol.md", "`Ask` (a question)", "`Ask` `Tell`")
    assert found(house) == ["docs/protocol.md: lists Tell, which core/limits.py does not have at 16"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("The first", "Another title", "needs the line | [1](01-first.md) | The first |"),
        ("| [1](01-first.md) | The first |\n", "", "needs the line | [1](01-first.md) | The first |"),
        ("| [2]", "| [3](03-x.md) | The third |\n| [2]", "there is no such record"),
    ],
)
def test_an_index_of_decisions_that_differs_from_the_records_is_found(
    house: Path, old: str, new: str, complaint: str
) -> None:
    change(house, "docs/decisions/README.md", old, new)
    assert any(complaint in line for line in decisions.complaints(house))


def test_a_former_record_that_its_index_does_not_list_is_found(house: Path) -> None:
    change(house, "docs/history/README.md", "The old one", "Another one")
    assert any("needs the line | [0001](0001-old.md) | The old one |" in line for line in decisions.complaints(house))


def test_a_broken_link_between_former_records_is_found(house: Path) -> None:
    change(house, "docs/history/0001-old.md", "(0001-old.md)", "(0002-none.md)")
    assert found(house) == ["docs/history/0001-old.md: the link 0002-none.md leads nowhere"]


def test_a_file_that_a_decision_names_and_does_not_exist_is_found(house: Path) -> None:
    change(house, "docs/decisions/02-second.md", "As in", "`gone.py`, as in")
    assert found(house) == ["docs/decisions/02-second.md: names gone.py, which does not exist"]


def test_two_records_of_one_number_and_a_record_without_a_title_are_found(house: Path) -> None:
    (house / "docs/decisions/02-other.md").write_text("# Something else\n")
    assert list(decisions.complaints(house)) == [
        "docs/decisions/02-other.md: the first line is not '# 2: ' and a title",
        "docs/decisions: two records have the number 2",
    ]


def test_a_scenario_and_a_document_that_no_list_names_are_found(house: Path) -> None:
    for name, text in (
        ("docs/README.md", "[a](client.md)"),
        ("docs/scenarios.md", "`bank.toml`"),
        ("docs/sweeps.md", ""),
    ):
        (house / name).write_text(text)
    folder = house / "src/resprout/scenario/files"
    folder.mkdir(parents=True)
    for name in ("bank.toml", "chain.toml"):
        (folder / name).touch()
    assert [line for line in listed.complaints(house) if "client" in line or "toml" in line] == [
        "docs/scenarios.md: does not list src/resprout/scenario/files/chain.toml"
    ]
    assert "docs/README.md: does not list docs/wire.md" in listed.complaints(house)


def test_links_that_lead_nowhere_are_found(house: Path) -> None:
    change(house, "docs/client.md", "wire.md#on-the-wire", "wire.md#elsewhere) and [there](gone.md")
    assert found(house) == [
        "docs/client.md: the link wire.md#elsewhere leads to no heading",
        "docs/client.md: the link gone.md leads nowhere",
    ]


def test_an_import_that_would_fail_is_found(house: Path) -> None:
    with (house / "docs/client.md").open("a") as file:
        file.write("\n`from resprout.core.limits import Ask, Shout`\n\n```\nfrom resprout.gone import Tell\n```\n")
    assert found(house) == [
        "docs/client.md: imports Shout from resprout.core.limits, which has none",
        "docs/client.md: imports Tell from resprout.gone, which has none",
    ]


def test_long_lines_are_found_but_for_tables_and_code(house: Path) -> None:
    long = "x" * 131
    with (house / "docs/client.md").open("a") as file:
        file.write(f"\n| {long} |\n\n```\n{long}\n```\n\n{long}\n")
    assert found(house) == ["docs/client.md: line 11 has 131 characters, 130 are the most"]


def test_more_private_attributes_in_tests_than_are_left_are_found(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privates, "ALLOWED", 1)
    file = house / "tests" / "test_clock.py"
    file.parent.mkdir()
    fine = "self._now, super()._tick(), row._replace(a=1), clock.__class__, clock.now"
    file.write_text(f"def test_it(clock):\n    assert clock._now\n    {fine}\n")
    assert privates.complaints(house) == []
    file.write_text(f"{file.read_text()}    assert clock.hands[0]._long\n")
    [line] = privates.complaints(house)
    assert line.startswith("tests use 2 private attributes of others, at most 1")
    assert line.endswith("tests/test_clock.py:2 _now, tests/test_clock.py:4 _long")
    file.write_text('WAYS = ("_tick", "resprout.core.clock._now", "_", "a _now")\n')
    [line] = privates.complaints(house)
    assert line.endswith("tests/test_clock.py:1 _tick, tests/test_clock.py:1 _now"), "a name as text is a use"


def test_messages_keep_their_words_in_traces_when_their_classes_are_renamed() -> None:
    assert (word_of(Gone), word_of(NodeGone)) == ("Gone", "Gone")
