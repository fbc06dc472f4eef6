"""The figures of the documents that the systems come from, and the comparison of all stacks.

`resprout report` finds the chapters by the entry point `resprout.chapters`.
"""

from typing import Final

from resprout.pipeline.report.chapter import Chapter
from resprout_lab.figures import ginger, locamu, scribe, stacks

CHAPTERS: Final[tuple[Chapter, ...]] = (*ginger.CHAPTERS, *locamu.CHAPTERS, *scribe.CHAPTERS, *stacks.CHAPTERS)
