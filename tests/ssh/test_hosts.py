"""Jobs on hosts that are reached by ssh: what must be the same as on this machine, and what networks do to them.

All hosts share this machine's clock and files, so what ranks on different hosts write can be compared.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headway.engines.ssh.client import sockets_dir
from headway.settings import home_from
from tests.netlab import Lab, need
from tests.pythons import find_python
from tests.real.test_survival import PACED, Paced
from tests.real.training import SCRIPT, undisturbed
from tests.ssh.houses import House
from tests.waiting import wait_until

pytestmark = pytest.mark.real

MEET = """
import os, socket
rank, address, port = os.environ["RANK"], os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == "0":
    with socket.create_server((address, port)) as server:
        other, whence = server.accept()
        print("rank 0 at", address, "met", other.recv(100).decode(), "from", whence[0])
        other.sendall(b"done")
else:
    while True:
        try:
            with socket.create_connection((address, port), 5) as home:
                home.sendall(b"rank 1")
                print("rank 1 was told", home.recv(100).decode())
                break
        except ConnectionRefusedError:
            pass
"""
# Deaf to SIGTERM; says when it lived, to a file that no network cut keeps it from, and saves a checkpoint that goes on.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
attempt, place = os.environ["HEADWAY_ATTEMPT"], os.environ["HEADWAY_CHECKPOINT_DIR"]
print("attempt", attempt, flush=True)
step = 1000 * int(attempt)
while not os.path.exists(sys.argv[1] + ".end") or attempt == "1":
    with open(sys.argv[1], "a") as file:
        file.write(f"{attempt} {time.time()}\\n")
    step += 1
    with open(f"{place}/model.tmp", "w") as file:
        file.write(str(step))
    os.replace(f"{place}/model.tmp", f"{place}/model-{step}.pkl")
    print("step", step, flush=True)
    time.sleep(0.2)
"""
# Fills the disk with its output, and stays until the test has seen it.
FLOOD = """
import os, sys, time
try:
    for number in range(200_000):
        os.write(1, f"line {number} {'.' * 80}\\n".encode())
except OSError:
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.05)
    os._exit(3)
"""
CLOCK = """import time
print("here it is", time.time())
"""
LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab = Lab(9, tiny=[5])
    yield lab
    lab.close()


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """A server that the hosts reach directly, but for h4, which reaches nobody by itself. The disk of h5 is tiny. And
    h6 has an old Python where there is one, and is reached through h8 alone, as ~/.ssh/config says."""
    h4, h6 = lab.hosts[3], lab.hosts[5]
    h6.run("iptables", "-A", "INPUT", "-p", "tcp", "-s", lab.address, "--dport", "22", "-j", "DROP")
    lab.config.write_text(lab.config.read_text().replace("Host h6 6\n", "Host h6 6\n  ProxyJump h8\n"))
    old = {"python": found} if (found := find_python("3.8")) else {}
    h4.run("iptables", "-A", "OUTPUT", "-p", "tcp", "-d", lab.address, "!", "--sport", "22", "-j", "DROP")
    pools: dict[str, dict[str, Any]] = {
        "lab": {"hosts": ["h1", "h2"]},
        "brief": {"hosts": ["h3", "h9"], "lease": 20},
        "deaf": {"hosts": ["h4"]},
        "tiny": {"hosts": ["h5"]},
        "calm": {"hosts": ["h6"], "options": old},
    }
    house = House(lab, pools, lab.address)
    try:
        house.until_up("lab-h1", "lab-h2", "brief-h3", "brief-h9", "deaf-h4", "tiny-h5", "calm-h6")
        yield house
    finally:
        house.end()


def test_a_bundled_job_runs_there_with_its_log_checkpoints_and_artifact(house: House, tmp_path: Path) -> None:
    house.script("train.py", SCRIPT)
    job = house.submit("--pool", "lab", "--bundle", "train.py", "30", "0.01", "10")
    ended = house.wait(job)
    assert ended["state"] == "succeeded", ended["sentence"]
    log = house.log(job).splitlines()
    assert [line for line in log if line.startswith("step")] == [f"step {number}" for number in range(1, 31)]
    assert "30" in house.ok("checkpoints", job)
    house.ok("artifacts", "get", job, "-C", str(tmp_path))
    found = next(tmp_path.rglob("final.pkl"))
    assert pickle.loads(found.read_bytes()) == pickle.loads(undisturbed(30))


def test_a_gang_meets_at_the_hosts_own_addresses(house: House) -> None:
    house.script("meet.py", MEET)
    job = house.submit("--pool", "lab", "--nodes", "2", "meet.py")
    assert house.wait(job)["state"] == "succeeded"
    said = house.log(job)
    addresses = [host.address for host in house.lab.hosts[:2]]
    met = next(line for line in said.splitlines() if "rank 0 at" in line).split()
    assert met[met.index("at") + 1] in addresses
    assert met[-1] in addresses
    assert met[-1] != met[met.index("at") + 1]


def test_a_host_that_cannot_reach_the_server_is_given_a_tunnel(house: House) -> None:
    said = house.ok("run", "-q", "--pool", "deaf", "--", "echo", "through the tunnel")
    assert "through the tunnel" in said
    known = json.loads((house.node_dir(house.lab.hosts[3], "deaf") / "server.json").read_text())
    assert known["via"].endswith("home.sock")
    direct = json.loads((house.node_dir(house.lab.hosts[0], "lab") / "server.json").read_text())
    assert not direct["via"]


def paced_on(house: House, pool: str, name: str) -> Paced:
    """A job that prints when it is told to, on a whole node of this pool."""
    paced = Paced.__new__(Paced)
    house.script(f"{name}.py", PACED)
    paced.living, paced.lines, paced.pid = house, 60, 0
    paced.pace = house.place / name
    paced.pace.write_text("0")
    paced.job = house.submit("--pool", pool, "--cpus", "2", f"{name}.py", "60", str(paced.pace))
    paced.started()
    return paced


def host_of(house: House, job: str) -> int:
    """The index of the host on which a job runs."""
    node = house.job(job)["attempts"][-1]["tasks"][0]["node"]
    return int(node[-1]) - 1


def test_a_server_that_comes_back_adopts_the_hosts_and_loses_no_line(house: House) -> None:
    jobs = [paced_on(house, pool, f"paced-{pool}") for pool in ("calm", "deaf")]
    for each in jobs:  # Behind a jump host, and behind a tunnel.
        visited = house.run("exec", each.job, "--", "sh", "-c", "ip -4 -o addr show eth0; exit 7")
        assert (visited.returncode, house.lab.hosts[host_of(house, each.job)].address in visited.stdout) == (7, True)
    pids = {path: path.read_text() for path in house.lab.place.glob("h*/.headway/*/*/agent.pid")}
    for job in jobs:
        job.until(20)
    house.kill(house.server)
    for job in jobs:
        job.until(40)
    house.start_again()
    for job in jobs:
        job.until(60)
        ended = house.wait(job.job)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1), ended["sentence"]
        job.check_log()
    assert {path: path.read_text() for path in pids} == pids, "the same agents as before"


def cut_shorter_than_the_lease(house: House, paced: Paced, node: str) -> None:
    host = house.lab.hosts[int(node[-1]) - 1]
    paced.until(20)
    host.cut()
    wait_until(lambda: house.nodes()[node] == "silent", every_s=0.3, what=f"{node} to be missed", story=house.story)
    paced.until(40)
    host.join()
    house.until_up(node)
    paced.until(60)
    ended = house.wait(paced.job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1), house.ok("describe", paced.job)
    paced.check_log()


def cut_longer_than_the_lease(house: House, job: str, lives: Path) -> None:
    host = house.lab.hosts[host_of(house, job)]
    node = f"brief-{host.name}"

    def lived(attempt: str) -> list[float]:
        lines = lives.read_text().rpartition("\n")[0].splitlines() if lives.exists() else []
        return [float(line.split()[1]) for line in lines if line.split()[0] == attempt]

    wait_until(lambda: lived("1"), what="the first attempt")
    host.cut()
    # On the host that is cut off a rank goes on for a while, and what it writes waits there.
    wait_until(lambda: lived("2"), what="the second attempt", story=house.story)
    assert max(lived("1")) < min(lived("2")), "two attempts of one job were alive at once"
    told = house.log(job, "1")
    steps = [each["step"] for each in json.loads(house.ok("checkpoints", job, "--json"))["checkpoints"]]
    host.join()
    house.until_up(node)
    lives.with_name(lives.name + ".end").touch()
    ended = house.wait(job)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2), ended["sentence"]
    assert ended["attempts"][0]["cause"] == "node_lost"
    assert house.log(job, "1") == told, "output of the old attempt was taken"
    after = [each["step"] for each in json.loads(house.ok("checkpoints", job, "--json"))["checkpoints"]]
    assert not {step for step in after if step < 2000} - set(steps), "a checkpoint of the old attempt was taken"
    left = house.node_dir(host, "brief") / "tasks"
    wait_until(lambda: not list(left.glob(f"{job}-1-*")), what="the old attempt's files to be gone", story=house.story)


def test_a_cut_changes_nothing_within_the_lease_and_beyond_it_the_old_attempt_ends_first(house: House) -> None:
    through_tunnel, direct = paced_on(house, "deaf", "cut-deaf"), paced_on(house, "calm", "cut-calm")
    house.script("stubborn.py", STUBBORN)
    lives = house.place / "lives"
    job = house.submit("--pool", "brief", "--cpus", "2", "--grace", "2s", "stubborn.py", str(lives))
    wait_until(lambda: house.job(job)["state"] == "running", what="the stubborn job")
    with ThreadPoolExecutor(3) as threads:
        cuts = [
            threads.submit(cut_longer_than_the_lease, house, job, lives),
            threads.submit(cut_shorter_than_the_lease, house, direct, "calm-h6"),
            threads.submit(cut_shorter_than_the_lease, house, through_tunnel, "deaf-h4"),
        ]
        for cut in cuts:
            cut.result()


def test_a_full_disk_is_told_and_what_was_heard_of_the_job_stays(house: House) -> None:
    house.script("flood.py", FLOOD)
    seen = house.place / "seen"
    job = house.submit("--pool", "tiny", "flood.py", str(seen))
    wait_until(lambda: "no room left" in house.ok("server", "status"), every_s=0.3, what="the full disk to be told")
    seen.touch()
    ended = house.wait(job)
    assert (ended["state"], ended["exit_code"]) == ("failed", 3), ended["sentence"]
    lines = house.log(job).splitlines()
    heard = [line for line in lines if line.startswith("line ")]
    assert heard[:-1] == [f"line {number} {'.' * 80}" for number in range(len(heard) - 1)]
    assert house.ok("run", "-q", "--pool", "tiny", "--", "echo", "again").strip().endswith("again")


def test_behind_a_loopback_server_tunnels_are_made_again_and_a_wrong_clock_breaks_nothing(lab: Lab) -> None:
    h7, h8 = lab.hosts[6:8]
    need("faketime", "faketime") if not os.path.exists(LIBRARY) else None
    python = h8.home / "python-of-tomorrow"
    python.write_text(
        f"#!/bin/bash\nexport LD_PRELOAD={LIBRARY} FAKETIME=+10m FAKETIME_DONT_FAKE_MONOTONIC=1\n"
        f'exec -a {python} /usr/bin/python3 "$@"\n'
    )
    python.chmod(0o755)
    pools: dict[str, dict[str, Any]] = {
        "far": {"hosts": ["h7"]},
        "late": {"hosts": ["h8"], "options": {"python": str(python)}},
    }
    house = House(lab, pools, "127.0.0.1")
    try:
        house.until_up("far-h7", "late-h8")
        paced = paced_on(house, "far", "paced-far")
        late = house.submit("--pool", "late", "--no-bundle", "--", str(python), "-c", CLOCK)
        paced.until(20)
        house.kill(house.server)
        sockets = sockets_dir(home_from({"HEADWAY_HOME": str(house.home)}).state)
        for pid in subprocess.run(["pgrep", "-f", str(sockets)], capture_output=True, text=True).stdout.split():
            os.kill(int(pid), 9)  # The kept connections, and with them the tunnels.
        paced.until(40)
        house.start_again()
        paced.until(60)
        ended = house.wait(paced.job)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 1), ended["sentence"]
        paced.check_log()
        ended = house.wait(late)
        assert ended["state"] == "succeeded", ended["sentence"]
        shown = float(house.log(late).split()[-1])
        assert shown - ended["ended_at"] > 500, "the clock there is ten minutes ahead"
        assert ended["ended_at"] >= ended["attempts"][0]["started_at"]
        checks = {each["what"]: each for each in json.loads(house.run("doctor", "--json").stdout)}
        assert checks["host h7 of pool far"]["verdict"] == "ok"
        assert "through the tunnel" in checks["host h7 of pool far: way home"]["found"]
        assert "ahead" in checks["host h8 of pool late: clock"]["found"]
        assert "one system user (root)" in checks["pool far"]["found"]
        house.ok("pool", "rm", "far")
        house.ok("pool", "rm", "late")
        wait_until(lambda: not house.nodes(), every_s=0.3, what="the nodes to be given back")
        assert [path.name for host in (h7, h8) for path in host.home.iterdir()] == [python.name]
        left = [Path(f"/proc/{pid}/cmdline").read_bytes() for host in (h7, h8) for pid in host.pids()]
        assert not [line for line in left if b"agent-" in line]
    finally:
        house.end()
