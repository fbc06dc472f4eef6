"""One subscriber: what it was given, each publication at its first sound delivery."""

import numpy as np

from resprout.pipeline.judging.arrays import Array, first_places
from resprout.pipeline.judging.deliveries import Deliveries
from resprout.pipeline.judging.publications import Publications


class Subscriber:
    """The deliveries of one life, in order of rows, each publication at its first sound one."""

    def __init__(self, publications: Publications, life: int, deliveries: Deliveries, begin: int, end: int) -> None:
        self.life = life
        count = len(publications)
        number, row = deliveries.number[begin:end], deliveries.row[begin:end]
        self.position = deliveries.position[begin:end]
        known = np.flatnonzero((number >= 0) & (number < count))
        published = number[known]
        self.any_place = first_places(published, count)
        """By publication, its first delivery among those of anything published, sound or not; -1 for none."""
        self.twice = bool(np.count_nonzero(self.any_place >= 0) < len(published))
        self.first_any = self.any_place[self.any_place >= 0] if self.twice else np.arange(len(published))
        self.first_any_numbers, self.first_any_rows = published[self.first_any], row[known][self.first_any]
        sound = np.flatnonzero(row[known] > publications.row[published])
        self.early = published[row[known] < publications.row[published]]
        """Publications with a delivery that stands before them."""
        if self.twice and len(sound):
            place = first_places(published[sound], count)
            sound = sound[np.sort(place[place >= 0])]
        self.heard = published[sound]
        """In order of rows."""
        self.heard_row = row[known][sound]
        self.heard_position = self.position[known][sound]
        self.is_dense = not len(row) or bool(
            self.position[0] == 0 and np.all(self.position[1:] == self.position[:-1] + 1)
        )
        self.by_position: Array = (
            np.arange(len(self.heard)) if self.is_dense else np.argsort(self.heard_position, kind="stable")
        )
        self.sequence: Array = self.heard[self.by_position]
        """In order of positions."""
        self.is_placed: Array = deliveries.is_placed[begin:end][known][sound][self.by_position]
        """For each of them, whether a place among the totals was told."""
