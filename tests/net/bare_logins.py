"""A login on a bare connection, frame by frame."""

from typing import Any

from resprout.net.identity.proofs import LoginSecret, OpenerLogin

from .stage import Bare


async def log_in(peer: Bare, name: str, secret: str, broker: str = "b0", certificate: bytes = b"") -> Any:
    """Prove it to the broker. Returns the last frame that it said: `ProofAccepted`, or what it refuses by."""
    login = OpenerLogin(LoginSecret(name, secret), certificate, broker)
    peer.say(login.begin())
    challenge = await peer.hear()
    peer.say(login.hear(challenge))
    return await peer.hear()
