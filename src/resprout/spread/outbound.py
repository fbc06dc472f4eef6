"""What a broker has to tell its neighbours, in the order it must be told."""

from resprout.core.contract import ProtocolMessage

Outbound = list[tuple[str, ProtocolMessage]]
