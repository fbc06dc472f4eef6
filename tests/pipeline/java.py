"""How Java is started for tests: it lives for a minute or two, so it had better not spend them on being fast later."""

from typing import Final

SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Without the compiler that pays off in long runs, and without threads that collect garbage."""
