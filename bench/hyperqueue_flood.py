"""Floods HyperQueue on this machine, in a Python that has it, and prints how many seconds each flood took.

Run by peers.py. One job with as many tasks as it is told, each of one core, output into files as by default; the
clock runs from the request until the client knows that all have ended. Its journal is off, as by default.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time


def main() -> None:
    from hyperqueue import Job, LocalCluster  # type: ignore[import-not-found]
    from hyperqueue.cluster import WorkerConfig  # type: ignore[import-not-found]

    counts = [int(each) for each in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as place, LocalCluster() as cluster:
        os.chdir(place)
        cluster.start_worker(WorkerConfig(cores=len(os.sched_getaffinity(0))))
        client = cluster.client()
        for count in [1, *counts]:  # The first one alone: everything is up then.
            job = Job()
            for _ in range(count):
                job.program(["/bin/true"])
            began = time.perf_counter()
            client.wait_for_jobs([client.submit(job)])
            print(f"{count} {time.perf_counter() - began:.4f}", flush=True)


if __name__ == "__main__":
    main()
