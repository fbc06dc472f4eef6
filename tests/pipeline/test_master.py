"""A master of Spark that is not there is told before Java is started, which would try it for more than a minute."""

import socket

import pytest

from resprout.pipeline.errors import NoSparkError
from resprout.pipeline.session import SparkChoice, check_answers, is_on_this_machine, places_of, start


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_dead_master_is_told_with_its_address_and_java_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resprout.pipeline.session.find_java_home", lambda: pytest.fail("it asked for Java first"))
    port = closed_port()
    with pytest.raises(NoSparkError) as raised:
        start(SparkChoice(master=f"spark://127.0.0.1:{port}"))
    assert str(raised.value) == (f"Spark cannot be started: no master answers (127.0.0.1:{port}: connection refused)")


def test_one_living_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as alive:
        check_answers(f"spark://127.0.0.1:{closed_port()},127.0.0.1:{alive.getsockname()[1]}")


@pytest.mark.parametrize("master", ["", "local[4]", "yarn", "k8s://https://host:443", "spark://host", "spark://a:b"])
def test_what_is_no_address_of_a_master_is_left_to_spark(master: str) -> None:
    assert places_of(master) == []
    check_answers(master)


def test_a_host_that_nobody_knows_is_told() -> None:
    with pytest.raises(NoSparkError, match=r"no master answers \(no-such-host.invalid:7077: "):
        check_answers("spark://no-such-host.invalid:7077")


def test_whoever_works_for_a_master_on_loopback_listens_there_only() -> None:
    assert is_on_this_machine("spark://127.0.0.1:7077")
    assert is_on_this_machine("spark://localhost:1,[::1]:2")
    assert not is_on_this_machine("spark://127.0.0.1:7077,10.0.0.1:7077")
    assert not is_on_this_machine("yarn")


def test_a_server_of_spark_connect_is_asked_like_a_master_and_without_java() -> None:
    assert places_of("sc://host") == [("host", 15002)]
    assert places_of("sc://127.0.0.1:7/;user_id=me") == [("127.0.0.1", 7)]
    with pytest.raises(NoSparkError, match=r"no master answers|Spark Connect is not installed"):
        start(SparkChoice(master=f"sc://127.0.0.1:{closed_port()}"))
