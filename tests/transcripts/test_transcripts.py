"""Transcripts of small runs, kept in files: who reads them reads the protocol, and they are what happens today.

RESPROUT_REWRITE_GOLDEN=1 writes the files anew; read the difference before keeping it.
"""

import os
import textwrap
from pathlib import Path

import pytest

from tests.transcripts.lines import LEFT_OUT, WIDTH, kind_of, speaker_of, written
from tests.transcripts.overheard import overhear
from tests.transcripts.scenes import SCENES, ZERO_US, Scene

FOLDER = Path(__file__).parents[2] / "docs" / "transcripts"
LINES_MAX = 60
"""Longer ones are not read."""


def transcript(scene: Scene) -> str:
    left_out = f"Left out: signs of life, frames of links{''.join(f', {name}' for name in scene.left_out)}."
    lines = [f"# {scene.title} (protocol.md, {scene.section!r})", "#", *_comment(scene.story), *_comment(left_out)]
    comments = list(scene.comments.items())
    shown = [
        one
        for one in overhear(scene.scenario)
        if ZERO_US <= one.time_us <= ZERO_US + scene.until_us and kind_of(one) not in {*LEFT_OUT, *scene.left_out}
    ]
    for one, line in written(shown, ZERO_US, scene.left_out):
        if comments and comments[0][0] == (speaker_of(one), kind_of(one)):
            lines += ["", *_comment(comments.pop(0)[1])]
        lines.append(line)
    assert not comments, f"nobody says what this is about: {comments[0]}"
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")


@pytest.mark.parametrize("name", SCENES)
def test_what_is_said_is_what_the_transcript_says(name: str) -> None:
    said = transcript(SCENES[name])
    file = FOLDER / f"{name}.txt"
    if os.environ.get("RESPROUT_REWRITE_GOLDEN"):
        file.write_text(said)
    assert said == file.read_text()


@pytest.mark.parametrize("name", SCENES)
def test_a_transcript_is_short_enough_to_be_read(name: str) -> None:
    assert (FOLDER / f"{name}.txt").read_text().count("\n") <= LINES_MAX


def test_there_is_a_scene_for_every_transcript() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(SCENES)
