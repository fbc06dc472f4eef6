"""Declarations of logs in files."""

import pytest

from resprout.core.errors import UsageError
from resprout.scenario.load import parse_scenario
from resprout.scenario.write import to_toml

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


def test_a_log_has_partitions_and_clients_may_read_one() -> None:
    text = TEXT.replace("[topology]", "partitions = 3\n[topology]").format(replicas=3)
    text += 'clients_per_broker = 1\n[[reader]]\nclient = "{client}"\nlog = "{log}"\npause = "1s"\nuntil = "5s"\n'
    (client, *_) = parse_scenario(TEXT.format(replicas=3) + "clients_per_broker = 1\n").clients
    scenario = parse_scenario(text.format(client=client.name, log="bank~2"))
    assert scenario.logs[0].partitions == 3 and scenario.readers[0].filter == "bank/#"
    assert parse_scenario(to_toml(scenario)).logs == scenario.logs
    for wrong in ("bank", "bank~3"):
        with pytest.raises(UsageError, match="log"):
            parse_scenario(text.format(client=client.name, log=wrong))
    with pytest.raises(UsageError, match="partitions"):
        parse_scenario(TEXT.replace("[topology]", "partitions = 65\n[topology]").format(replicas=3))


def test_a_compacted_log_is_written_as_it_is_read_and_retains_nothing_else() -> None:
    more = 'compact = true\ncompact_grace = "2s"\ncompact_bytes = 1_000\n[topology]'
    scenario = parse_scenario(TEXT.replace("[topology]", more).format(replicas=3))
    (log,) = scenario.logs
    assert (log.compact, log.compact_grace_us, log.compact_bytes) == (True, 2_000_000, 1_000)
    assert parse_scenario(to_toml(scenario)).logs == scenario.logs
    for retained in ('retain = "1h"', "retain_bytes = 1_000"):
        with pytest.raises(UsageError, match="for ever"):
            parse_scenario(TEXT.replace("[topology]", f"{retained}\n{more}").format(replicas=3))


@pytest.mark.parametrize(
    ("replicas", "complaint"), [("5", "there are 4 brokers for 5 replicas"), ("0", "0"), ('["b9"]', "no broker 'b9'")]
)
def test_replicas_are_brokers_of_the_scenario(replicas: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_scenario(TEXT.format(replicas=replicas))
