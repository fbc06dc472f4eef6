"""Messages that no connection would take stop a run.

In the virtual world nothing is encoded, so a message may be larger than any frame and arrive all the same. Between
processes its connection would break, and the next one as well, for ever. Whoever says it has a bug.
"""

from typing import Any

from resprout.core.errors import UsageError
from resprout.links.parts import Body, SharedBodies


class WeighedBodies(SharedBodies):
    def pack(self, number: int, message: Any) -> Body:
        try:
            return super().pack(number, message)
        except UsageError as error:
            raise AssertionError(f"no connection would take it: {error}") from None
