"""`RankInfo`: who this process is among the ranks that share one model."""

from dataclasses import dataclass

MAX_RANKS_IN_MEMORY = 64  # that can meet in shared memory: MAX_RANKS of srt/layers/native/ranks.h


@dataclass(frozen=True, slots=True)
class RankInfo:
    """Rank `rank` of `size`; rank 0 talks to the other processes, the others follow it."""

    rank: int
    size: int

    @property
    def is_leader(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0


ALONE = RankInfo(0, 1)
