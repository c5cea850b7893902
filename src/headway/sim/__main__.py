"""`python -m headway.sim`: run many seeds on all cores; a failure prints its seed, the broken sentence and the story.

Exit codes: 0 all well, 3 a safety sentence broke, 4 something did not settle, 5 something crashed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable

from headway.sim.run import Result, run_seed

EXIT_CODES = {"safety": 3, "liveness": 4, "crash": 5}
SHOWN_MOST = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m headway.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many seeds to run")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one seed alone, and tell its trace")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes to use")
    options = parser.parse_args()
    if options.seed is not None:
        result = run_seed(options.seed)
        print(f"seed {result.seed}: trace {result.trace}, {result.steps} steps")
        return report([result])
    began = time.perf_counter()
    seeds = range(options.first, options.first + options.seeds)
    with multiprocessing.Pool(options.jobs) as pool:
        code = report(pool.imap_unordered(run_seed, seeds, chunksize=8))
    took_s = time.perf_counter() - began
    print(f"{len(seeds)} seeds in {took_s:.1f} s: {len(seeds) / took_s:.1f} seeds/s")
    return code


def report(results: Iterable[Result]) -> int:
    """Print what failed, the first stories as soon as they are known; the exit code is that of the gravest failure."""
    failed: list[Result] = []
    for result in results:
        if result.kind:
            failed.append(result)
            if len(failed) <= SHOWN_MOST:
                print(f"\nseed {result.seed} ({result.kind}): {result.sentence}\n{result.story}", flush=True)
    failed.sort(key=lambda result: (EXIT_CODES[result.kind], result.seed))
    if failed:
        print(f"\n{len(failed)} seeds failed:")
        for result in failed:
            print(f"  {result.seed} ({result.kind}): {result.sentence[:160]}")
    return EXIT_CODES[failed[0].kind] if failed else 0


if __name__ == "__main__":
    sys.exit(main())
