"""A real Slurm of four nodes on this machine: munged, slurmctld and slurmd from Debian's packages, in one directory.

Nothing of the machine's own Slurm is read; ports and directories are those of this process alone.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.packages import PATH, missing
from tests.waiting import PATIENCE_S, wait_until

NEEDED = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel", "srun")
CONF = """
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={lab}/run/munge.sock
CredType=cred/munge
StateSaveLocation={lab}/state
SlurmdSpoolDir={lab}/spool/%n
SlurmctldPidFile={lab}/run/slurmctld.pid
SlurmdPidFile={lab}/run/slurmd-%n.pid
SlurmctldLogFile={lab}/log/slurmctld.log
SlurmdLogFile={lab}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=100000,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
MinJobAge=60
KillWait=2
SlurmdTimeout=300
SlurmctldTimeout=300
MessageTimeout=60
TCPTimeout=30
BatchStartTimeout=60
InactiveLimit=0
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
{nodes}
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=shut Nodes=ALL MaxTime=INFINITE State=DOWN
"""


def install() -> str:
    """Why there is no Slurm here; empty when there is one, perhaps after it was installed."""
    return missing(NEEDED, "slurm-wlm", "munge")


class SlurmLab:
    nodes = ("n1", "n2", "n3", "n4")

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="slurm-lab-"))
        self.path.chmod(0o755)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM_")},
            "SLURM_CONF": str(self.path / "slurm.conf"),
            "PATH": PATH,
        }
        for name in ("state", "log", "run", "munge", *(f"spool/{node}" for node in self.nodes)):
            (self.path / name).mkdir(parents=True)
        (self.path / "munge").chmod(0o700)
        key = self.path / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._write_conf()

    def _write_conf(self) -> None:
        ctld, *ports = free_ports(1 + len(self.nodes))
        nodes = "\n".join(
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4096"
            + (" Feature=fast Gres=gpu:a100:2" if name == "n4" else "")
            for name, port in zip(self.nodes, ports, strict=True)
        )
        text = CONF.format(lab=self.path, ctld=ctld, user=getpass.getuser(), nodes=nodes)
        (self.path / "slurm.conf").write_text(text)
        # Not quite GPUs: Slurm counts them all the same.
        files = "".join(f"NodeName=n4 Name=gpu Type=a100 File=/dev/{name}\n" for name in ("null", "zero"))
        (self.path / "gres.conf").write_text(files)

    def start(self, limit_s: float = PATIENCE_S) -> None:
        lab = self.path
        munged = ["munged", "--force", f"--socket={lab}/run/munge.sock", f"--key-file={lab}/munge/key"]
        munged += [f"--log-file={lab}/munge/log", f"--pid-file={lab}/run/munged.pid", f"--seed-file={lab}/munge/seed"]
        self.do(*munged)
        self.do("slurmctld", "-i")
        wait_until(lambda: self.run("scontrol", "ping").returncode == 0, limit_s, what="slurmctld", story=self.words)
        for node in self.nodes:
            self.start_node(node)
        idle = dict.fromkeys(self.nodes, "idle")
        wait_until(lambda: self.states() == idle, limit_s, what="four idle nodes", story=self.words)

    def start_node(self, node: str) -> None:
        self.do("slurmd", "-N", node)

    def kill_node(self, node: str) -> None:
        """End slurmd with no word. Its steps go on."""
        pid = self._pid(f"slurmd-{node}")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), what="the end of slurmd")
        (self.path / f"run/slurmd-{node}.pid").unlink(missing_ok=True)

    def mend_nodes(self) -> None:
        """Start what was killed, and take back what was given up."""
        for node in [each for each in self.nodes if not alive(self._pid(f"slurmd-{each}"))]:
            self.start_node(node)
            self.run("scontrol", "update", f"nodename={node}", "state=resume")
        up = ("idle", "mix", "alloc")
        wait_until(
            lambda: all(state in up for state in self.states().values()), what="all nodes to be back", story=self.words
        )

    def words(self) -> str:
        """The last that its daemons have said."""
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in (self.path / "log").glob("*.log"))

    def states(self) -> dict[str, str]:
        lines = self.do("sinfo", "-hN", "-p", "batch", "-o", "%N %t").split("\n")
        return {words[0]: words[1].strip("*") for line in lines if len(words := line.split()) == 2}

    def jobs(self) -> list[str]:
        """Names of jobs that are waiting, running or being ended."""
        return self.do("squeue", "-h", "-o", "%j").split()

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        given = more.get("input")
        return subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=PATIENCE_S, input=given)

    def do(self, *words: str, **more: str) -> str:
        done = self.run(*words, **more)
        assert done.returncode == 0, f"{' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}"
        return done.stdout

    def _pid(self, name: str) -> int:
        try:
            return int((self.path / f"run/{name}.pid").read_text())
        except (OSError, ValueError):
            return 0

    def processes(self) -> list[int]:
        """All that runs here, steps and their children with it: their environment names the lab."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                except OSError:
                    continue
                if os.fsencode(self.path) in said and alive(int(entry.name)):
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        self.run("scancel", "--full", *self.run("squeue", "-h", "-o", "%i").stdout.split())
        names = [*(f"slurmd-{node}" for node in self.nodes), "slurmctld", "munged"]
        for pid in [found for name in names if (found := self._pid(name))]:
            if alive(pid):
                os.kill(pid, signal.SIGTERM)

        def gone() -> bool:
            left = [pid for name in names if alive(pid := self._pid(name))]
            left += self.processes()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not left

        wait_until(gone, every_s=0.2, what="the end of the lab")
        shutil.rmtree(self.path, ignore_errors=True)


def alive(pid: int) -> bool:
    try:
        return bool(pid) and Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    return ports


def open_lab() -> SlurmLab:
    reason = install()
    if reason:
        pytest.skip(reason)
    # A port that was free may be another's when it is wanted.
    return _started(60.0) or _started(60.0) or _started(PATIENCE_S, last=True) or pytest.fail("no Slurm")


def _started(limit_s: float, last: bool = False) -> SlurmLab | None:
    lab = SlurmLab()
    try:
        lab.start(limit_s)
    except BaseException as error:
        lab.end()
        if last or not isinstance(error, AssertionError):
            raise
        return None
    return lab
