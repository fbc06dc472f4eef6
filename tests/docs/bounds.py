"""messages.md is what the code says of its numbers, and every number has a bound."""

from tools.message_bounds import complaints as complaints
