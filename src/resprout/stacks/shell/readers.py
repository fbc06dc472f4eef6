"""Who of the clients here wants a topic. It looks at every subscription: for people who ask, not for publications."""

from resprout.edge.broker.sessions import ClientSessions
from resprout.filters.predicate import topic_matches
from resprout.stacks.status import TopicReaders


def readers_here(sessions: ClientSessions, topic: str) -> TopicReaders:
    clients, conditional = [], []
    for name, session in sessions.all.items():
        wanted = [one for one in session.subscriptions.values() if topic_matches(one.filter, topic)]
        if any(one.where is None for one in wanted):
            clients.append(name)
        elif wanted:
            conditional.append(name)
    return TopicReaders(tuple(clients), tuple(conditional))
