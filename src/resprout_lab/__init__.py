"""The laboratory: nine systems from the literature, each a stack beside the default one.

One folder holds one system, and its docstring names the document that it follows. `blocks` holds what several systems
share. The product finds the systems by their entry points and never imports this package.
"""

from typing import Final

SYSTEMS: Final = (
    "ginger",
    "flood",
    "cbcast",
    "causal-barriers",
    "delta",
    "locamu",
    "sites",
    "gossip",
    "scribe",
)
"""The names of the stacks, in the order in which pages and tests list them."""
