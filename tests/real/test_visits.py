"""Visits to running jobs through their agent: commands, shells, ports; and the kept place of a failed one."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.living import HEADWAY, Living
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.real


def running(living: Living, *words: str) -> str:
    job = living.submit(*words)
    wait_until(lambda: living.job(job)["state"] == "running", what="the job to run")
    return job


def test_a_command_runs_where_the_job_runs(living: Living) -> None:
    job = running(living, "--env", "COLOUR=blue", "--", "sleep", "600")
    done = living.run("exec", job, "--", "sh", "-c", "echo $COLOUR $HEADWAY_JOB_ID; echo bad >&2; pwd; exit 7")
    assert done.returncode == 7
    assert done.stdout.split() == ["blue", job, str(living.place)]
    assert done.stderr == "bad\n"
    big = "x" * 3_000_000
    assert living.run("exec", job, "--", "cat", input=big).stdout == big
    assert living.run("exec", job, "--", "no-such-program").returncode == 127
    said = living.run("ssh", job, input="echo in the shell; exit 5\n")
    assert (said.returncode, said.stdout) == (5, "in the shell\n")
    events = living.job(job)
    assert events["state"] == "running"


def test_a_visit_that_cannot_be_is_refused_with_a_reason(living: Living) -> None:
    job = running(living, "--", "sleep", "600")
    wrong = living.run("exec", "--rank", "3", job, "--", "true")
    assert wrong.returncode == 5
    assert "has no rank 3" in wrong.stderr
    living.ok("stop", job, "--grace", "0")
    living.wait(job)
    over = living.run("exec", job, "--", "true")
    assert over.returncode != 0
    assert "does not run" in over.stderr
    for words in ("99999", "x", "1:2:3", "0"):
        assert living.run("tunnel", job, words).returncode == 2


def test_visits_end_with_the_job_and_with_the_visitor(living: Living) -> None:
    job = running(living, "--", "sleep", "600")
    env = {**os.environ, **living.env}

    def visit(seconds: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*HEADWAY, "exec", job, "--", "sh", "-c", f"sleep {seconds} & sleep {seconds}; echo went on"],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def sleeping(seconds: str) -> bool:
        return subprocess.run(["pgrep", "-fx", f"sleep {seconds}"], capture_output=True).returncode == 0

    mine = f"8{os.getpid()}1"
    left = visit(mine)
    wait_until(lambda: sleeping(mine), what="the first visit")
    left.send_signal(signal.SIGKILL)
    left.communicate()
    wait_until(lambda: not sleeping(mine), what="the end of what the killed visitor had started")
    other = f"8{os.getpid()}2"
    stays = visit(other)
    wait_until(lambda: sleeping(other), what="the second visit")
    living.ok("stop", job, "--grace", "0")
    wait_until(lambda: not sleeping(other), what="the visit to end with its job")
    out, err = stays.communicate(timeout=PATIENCE_S)
    assert stays.returncode != 0
    assert out == b"", "the shell did not go on to its next command"
    assert b"the job has ended here, and this visit with it" in err


def test_a_killed_agent_takes_its_visits_with_it_but_not_the_job(living: Living) -> None:
    job = running(living, "--", "sleep", "600")
    mine = f"8{os.getpid()}3"
    words = [*HEADWAY, "exec", job, "--", "sh", "-c", f"trap '' HUP PIPE; sleep {mine}"]
    visit = subprocess.Popen(words, env={**os.environ, **living.env}, stdin=subprocess.PIPE)

    def sleeping() -> bool:
        return subprocess.run(["pgrep", "-fx", f"sleep {mine}"], capture_output=True).returncode == 0

    wait_until(sleeping, what="the visit")
    before = living.agent
    living.kill(before)
    visit.communicate(timeout=PATIENCE_S)
    assert visit.returncode != 0
    wait_until(lambda: not sleeping(), what="the new agent to end what the old one's visit had left")
    assert living.job(job)["state"] == "running"
    assert living.job(job)["attempt"] == 1


def test_a_shell_has_a_terminal_of_its_own(living: Living) -> None:
    job = running(living, "--", "sleep", "600")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(living.env, TERM="xterm", PS1="ready> ")
        os.execv(HEADWAY[0], [*HEADWAY, "ssh", job])
    said = bytearray()

    def hears(what: bytes) -> Callable[[], bool]:
        def look() -> bool:
            while select.select([terminal], [], [], 0)[0]:
                try:
                    said.extend(os.read(terminal, 65536))
                except OSError:
                    break
            return what in said

        return look

    os.write(terminal, b"echo be''gun; tty; sleep 600\r")
    wait_until(hears(b"/dev/pts/"), what="the shell's terminal")
    os.write(terminal, b"\x03")
    os.write(terminal, b"echo inter''rupted $?; exit 5\r")
    wait_until(hears(b"interrupted 130"), what="Ctrl-C to reach the command")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 5


def test_a_port_of_the_node_comes_to_this_machine(living: Living) -> None:
    far, near = _free_port(), _free_port()
    (living.place / "page.txt").write_text("a page of the job\n" * 10_000)
    job = running(living, "--", "python3", "-m", "http.server", str(far), "--bind", "127.0.0.1")
    words = [*HEADWAY, "tunnel", job, f"{near}:{far}"]
    tunnel = subprocess.Popen(words, env={**os.environ, **living.env}, stderr=subprocess.DEVNULL)

    def page() -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{near}/page.txt", timeout=60) as answer:
                return answer.read()
        except OSError:
            return None

    try:
        assert wait_until(page, what="the page") == (living.place / "page.txt").read_bytes()
    finally:
        tunnel.send_signal(signal.SIGINT)
        assert tunnel.wait(PATIENCE_S) == 0
    other = subprocess.Popen(words, env={**os.environ, **living.env}, stderr=subprocess.PIPE)
    wait_until(page, what="the page again")
    living.ok("stop", job, "--grace", "0")
    _, said = other.communicate(timeout=PATIENCE_S)
    assert b"has ended, and the tunnel with it: cancelled" in said
    assert other.returncode == 103


def test_a_port_of_this_very_machine_is_left_to_the_job(living: Living) -> None:
    port = _free_port()
    (living.place / "page.txt").write_text("a page of the job\n")
    late = f"while [ ! -e go ]; do sleep 0.1; done; exec python3 -m http.server {port} --bind 127.0.0.1"
    job = running(living, "--", "sh", "-c", late)
    words = [*HEADWAY, "tunnel", job, str(port)]
    tunnel = subprocess.Popen(words, env={**os.environ, **living.env}, stderr=subprocess.PIPE)
    assert tunnel.stderr
    assert b"runs on this machine" in tunnel.stderr.readline()
    (living.place / "go").touch()

    def page() -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/page.txt", timeout=60) as answer:
                return answer.read()
        except OSError:
            return None

    assert wait_until(page, what="the page") == b"a page of the job\n"
    tunnel.send_signal(signal.SIGINT)
    assert tunnel.wait(PATIENCE_S) == 0
    tunnel.stderr.close()


def test_files_go_into_a_running_job_and_out_of_it(living: Living) -> None:
    job = running(living, "--", "sh", "-c", "mkdir -p live/deep; printf a > live/deep/a; exec sleep 600")
    here = living.place.parent / "here"
    here.mkdir()
    big = os.urandom(3_000_000)
    (here / "big.bin").write_bytes(big)
    (here / "big.bin").chmod(0o755)
    living.ok("cp", str(here / "big.bin"), f"{job}:live/sent.bin")
    assert (living.place / "live/sent.bin").read_bytes() == big
    assert (living.place / "live/sent.bin").stat().st_mode & 0o777 == 0o755
    living.ok("cp", str(here), f"{job}:live")
    assert (living.place / "live/here/big.bin").read_bytes() == big
    living.ok("cp", f"{job}:live", str(here / "back"))
    assert (here / "back/deep/a").read_text() == "a"
    assert (here / "back/sent.bin").read_bytes() == big
    living.ok("cp", f"{job}:live/deep/a", str(here))
    assert (here / "a").read_text() == "a"
    assert not [*living.place.rglob(".headway-cp*"), *here.rglob("*.part")]
    assert ": headway cp to live/sent.bin" in living.ok("events", job)
    for source, target, said in (
        (f"{job}:live/none", str(here), "in its directory"),
        (str(here / "a"), f"{job}:none/deep/a", "has no directory"),
        (str(here / "a"), f"{job}:live/deep", ""),
        (str(here / "none"), f"{job}:x", "no file"),
    ):
        done = living.run("cp", source, target)
        assert (done.returncode == 0) == (not said), done.stderr
        assert said in done.stderr


def test_the_place_of_a_failed_job_is_kept_for_a_look(living: Living) -> None:
    job = living.submit("--hold-on-failure", "10m", "--", "sh", "-c", "echo at work > found; exit 3")
    wait_until(lambda: living.job(job)["state"] == "stopping", what="the failure")
    assert "its place is kept" in living.job(job)["sentence"]
    living.kill(living.agent, living.server)  # Neither has anything to do with it.
    wait_until(lambda: living.run("exec", job, "--", "cat", "found").stdout == "at work\n", what="a look at it")
    living.ok("stop", job)
    ended = living.wait(job)
    assert (ended["state"], ended["cause"], ended["attempts"][0]["exit_code"]) == ("failed", "user_code", 3)
    short = living.submit("--hold-on-failure", "1s", "--", "sh", "-c", "exit 4")
    assert living.wait(short)["cause"] == "user_code"
    again = living.submit("--hold-on-failure", "10m", "--", "sh", "-c", "test $HEADWAY_ATTEMPT = 2 || exit 99")
    assert living.wait(again)["state"] == "succeeded"
    assert living.run("run", "--hold-on-failure", "soon", "--", "true").returncode == 2


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
