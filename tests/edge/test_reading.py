"""What a client asks of the past, and what becomes of the answer."""

import pytest

from resprout.core.contract import Answer
from resprout.core.guarantee import Guarantee
from resprout.edge.client.questions import REQUESTS_MAX, messages_of
from resprout.edge.messages import EventRead, EventsEnd, Extra, ReadEvents, Serving
from resprout.edge.requests import EventsAnswered, ReadRequest, Refused, SessionLost
from tests.edge.puppets import Puppet
from tests.wire.examples import bundle

READS = Serving("resprout", tuple(Guarantee), 1, extras=(Extra.READING,))
READS_NOT = Serving("resprout", tuple(Guarantee), 1, extras=(Extra.FORGETTING,))


def asked(client: Puppet, request: ReadRequest, token: int) -> ReadEvents:
    (message,) = client.ask(request, token).sent
    assert isinstance(message, ReadEvents)
    return message


def test_events_are_gathered_until_the_broker_says_that_it_was_all() -> None:
    client = Puppet(serving=READS)
    first = asked(client, ReadRequest("bank/+", "amount > 1", "j", 40), 5)
    second = asked(client, ReadRequest("#", position=-1, time_us=9), 6)
    assert (first.filter, first.where, first.journal, first.position) == ("bank/+", "amount > 1", "j", 40)
    client.hear(EventRead(second.id, bundle(), None, -1, 3, 1, 100))
    client.hear(EventRead(first.id, bundle(first=4), (2,), -1, 41, 1, 200))
    client.hear(EventsEnd(first.id, "j", 42, 40, 50))
    (answer,) = client.of(Answer)
    assert answer.token == 5 and isinstance(answer.body, EventsAnswered)
    (stored,) = [stored for event in answer.body.events for stored in messages_of(event)]
    assert (stored.position, stored.index, stored.message.seq, stored.time_us) == (41, 2, 6, 200)
    assert (answer.body.following, answer.body.first, answer.body.end, answer.body.reason) == (42, 40, 50, "")
    client.hear(EventsEnd(second.id, "j", 4, 0, 4, "not all of it"))
    (answer,) = client.of(Answer)
    assert answer.token == 6 and answer.body.reason == "not all of it"


def test_a_broker_that_keeps_nothing_is_not_asked() -> None:
    client = Puppet(serving=READS_NOT)
    assert client.ask(ReadRequest("#"), 7).sent == []
    (answer,) = client.of(Answer)
    assert answer.token == 7 and "keeps no events" in answer.body.reason


def test_what_cannot_be_asked_is_refused_here() -> None:
    client = Puppet(serving=READS)
    for request in (ReadRequest("a/#/b"), ReadRequest("a", also=("b", "a/#/b"))):
        client.ask(request, 7)
        (answer,) = client.of(Answer)
        assert isinstance(answer.body, Refused) and answer.token == 7
    for token in range(REQUESTS_MAX):
        asked(client, ReadRequest("#"), token)
    client.ask(ReadRequest("#"), 99)
    assert "wait for their answers" in client.of(Answer)[-1].body.reason


def test_a_bundle_with_fewer_places_than_messages_ends_the_session() -> None:
    client = Puppet(serving=READS)
    client.hear(EventRead(asked(client, ReadRequest("#"), 5).id, bundle(), (0,) * (bundle().count + 1), -1, 3, 1, 100))
    (answer,) = client.of(Answer)
    assert isinstance(answer.body, SessionLost) and "offsets for" in answer.body.reason


@pytest.mark.parametrize("message", [EventsEnd(9, "j", 0, 0, 0), EventRead(9, bundle(), None, -1, 0, 1, 0)])
def test_an_answer_that_nobody_asked_for_ends_the_session(message: EventsEnd | EventRead) -> None:
    client = Puppet(serving=READS)
    client.hear(message)
    (answer,) = client.of(Answer)
    assert isinstance(answer.body, SessionLost) and answer.body.over


def test_what_was_asked_of_a_broker_that_is_lost_is_answered_here() -> None:
    client = Puppet(serving=READS)
    asked(client, ReadRequest("#"), 5)
    answers = [answer for answer in client.again(READS).of(Answer) if isinstance(answer.body, EventsAnswered)]
    assert [(answer.token, answer.body.reason) for answer in answers] == [
        (5, "the broker was lost before it answered: ask again")
    ]
