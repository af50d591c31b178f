"""Turn estimates of changes into verdicts.

A verdict needs three things: the interval of the change excludes none, the change survives the correction
for looking at many rows at once (`overlane.analysis.noise.adjusted`), and it is at least as large as a change
that counts (`least_fraction`).
"""

from __future__ import annotations

from collections.abc import Sequence

from overlane.analysis import noise
from overlane.analysis.changes import Verdict, VerdictWord

__all__ = ["Judge"]


class Judge:
    """Turns estimates into verdicts, the same way for every kind of row.

    Args:
        level: Confidence of the intervals.
        least_fraction: Smaller changes are no difference.
        against: Sentences that forbid any verdict; empty where none does.
    """

    def __init__(self, level: float, least_fraction: float, against: str) -> None:
        self.level = level
        self._least = least_fraction
        self._against = against

    def verdicts(
        self,
        estimates: Sequence[noise.Estimate | None],
        why_not: Sequence[str],
        none: float,
        better: Sequence[str],
    ) -> list[Verdict]:
        """Return the verdict of each row.

        Args:
            estimates: Changes; None where the noise is not known.
            why_not: What forbids a verdict on each row; empty where nothing does.
            none: The change that is none: 1 for ratios, 0 for differences.
            better: `lower` or `higher`.
        """
        judged = [
            one if one is not None and not why else None for one, why in zip(estimates, why_not, strict=True)
        ]
        corrected = iter(noise.adjusted(one.chance for one in judged if one is not None))
        return [
            Verdict("not comparable", self._against or why)
            if one is None or self._against
            else self._verdict(one, next(corrected), none, is_lower_better=direction == "lower")
            for one, why, direction in zip(judged, why_not, better, strict=True)
        ]

    def _verdict(self, one: noise.Estimate, chance: float, none: float, *, is_lower_better: bool) -> Verdict:
        words = f"{100 * self.level:g} % interval"
        same: VerdictWord = "no difference beyond noise"
        if one.low <= none <= one.high:
            return Verdict(same, f"Its {words} includes no difference.")
        if chance > 1 - self.level:
            return Verdict(
                same, f"Its {words} excludes no difference, but among so many rows some do by chance."
            )
        share = abs(one.change - 1) if none else abs(one.change) / max(abs(one.baseline), 1e-300)
        if share < self._least:
            return Verdict(
                same, f"It changed by {100 * share:.2g} %; below {100 * self._least:g} % does not count."
            )
        is_faster = (one.change < none) == is_lower_better
        return Verdict("faster" if is_faster else "slower", f"Its {words} excludes no difference.")
