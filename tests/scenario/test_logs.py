"""Declarations of logs in files."""

import pytest

from resprout.core.errors import UsageError
from resprout.scenario.load import parse_scenario

TEXT = """
[[log]]
name = "bank"
filter = "bank/#"
replicas = {replicas}
[topology]
kind = "tree"
brokers = 4
degree = 2
"""


def test_a_number_of_replicas_means_the_first_brokers() -> None:
    (log,) = parse_scenario(TEXT.format(replicas=3)).logs
    assert log.replicas == ("b0", "b1", "b2") and log.key == "bank"
    (named,) = parse_scenario(TEXT.format(replicas='["b3", "b1"]')).logs
    assert named.replicas == ("b3", "b1")


@pytest.mark.parametrize(
    ("replicas", "complaint"), [("5", "there are 4 brokers for 5 replicas"), ("0", "0"), ('["b9"]', "no broker 'b9'")]
)
def test_replicas_are_brokers_of_the_scenario(replicas: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_scenario(TEXT.format(replicas=replicas))
