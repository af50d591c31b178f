"""Precision and recall of each cause over simulated programs.

Usage: python benchmarks/causes.py [--programs N] [--first SEED]

Counted are the nanoseconds of which the rows determine the cause; the last column is what they leave open.
"""

from __future__ import annotations

import argparse

from overlane.analysis.causes import CAUSE_NAMES
from overlane.analysis.dependencies import dependencies
from overlane.analysis.idle import idle
from overlane.analysis.waits import waits
from overlane.simulate import run
from overlane.simulate.generate import random_program
from overlane.simulate.judging import judge_idle, judge_waits
from overlane.simulate.scoring import Score


def scores(first: int, count: int) -> dict[str, Score]:
    """Return the scores of waits and of idle time over the programs of so many seeds."""
    result = {"wait": Score(), "idle": Score()}
    for seed in range(first, first + count):
        simulated = run(random_program(seed))
        deps = dependencies(simulated.trace)
        found = waits(simulated.trace, deps)
        for stretch in judge_waits(simulated, found):
            result["wait"].add(stretch)
        for stretch in judge_idle(simulated, deps, idle(simulated.trace, deps, found)):
            result["idle"].add(stretch)
    return result


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description="Precision and recall of each cause over simulated programs."
    )
    parser.add_argument("--programs", type=int, default=2000, help="How many programs.")
    parser.add_argument("--first", type=int, default=0, help="Seed of the first one.")
    options = parser.parse_args()
    print("| of | cause | precision | recall | true ns | open ns |\n| --- | --- | --- | --- | --- | --- |")
    for name, score in scores(options.first, options.programs).items():
        for cause in CAUSE_NAMES:
            true, left_open = score.true_ns.get(cause, 0), score.open_ns.get(cause, 0)
            if true or left_open or score.found_ns.get(cause):
                shares = [
                    "-" if share is None else f"{share:.4f}"
                    for share in (score.precision(cause), score.recall(cause))
                ]
                print(f"| {name} | {cause} | {shares[0]} | {shares[1]} | {true:,} | {left_open:,} |")


if __name__ == "__main__":
    main()
