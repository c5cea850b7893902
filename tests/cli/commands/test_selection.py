"""Jobs chosen by what they are, and arrays as one thing, at the command line."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.cli.frame import exits
from headway.cli.screen.arrays import bar, counted
from tests.api.serving import TOKEN, Serving


class Terminal(io.StringIO):
    """Somebody who answers."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    with Serving(tmp_path / "server") as serving:
        monkeypatch.setenv("HEADWAY_SERVER_URL", serving.url)
        monkeypatch.setenv("HEADWAY_TOKEN", TOKEN)
        yield serving


def three(server: Serving) -> list[str]:
    return [server.submit(hold=True, name=f"sweep-{at}", tags={"team": "vision"}) for at in range(3)]


def test_many_are_shown_and_asked_for_before_anything_is_done(
    server: Serving, headway: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = three(server)
    said = headway("stop", "--name", "sweep-*")
    assert (said.code, said.out) == (exits.USAGE, "")
    assert "stop: 3 jobs (3 queued), and nobody is there to agree" in said.err
    assert "hint: add -y" in said.err
    for answer, state in (("n\n", "queued"), ("y\n", "cancelled")):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        said = headway("stop", "--name", "sweep-*")
        assert all(job in said.err for job in jobs), said.err
        assert server.ok("GET", f"/jobs/{jobs[0]}")["state"] == state
    assert said.out.endswith("3 jobs asked to end\n")


def test_with_yes_nobody_is_asked_and_programs_get_the_ids(server: Serving, headway: Callable) -> None:
    jobs = three(server)
    assert headway("stop", "--tag", "team=vision", "-y", "--json").json == {"done": jobs[::-1], "refused": []}
    assert headway("rm", "--state", "cancelled", "-y", "-q").out.split() == jobs[::-1]
    said = headway("rm", "--state", "cancelled", "-y")
    assert (said.code, said.out, said.err) == (0, "", "no jobs are like that\n")


def test_a_verb_needs_a_job_or_a_filter_and_a_filter_chooses_among_many(server: Serving, headway: Callable) -> None:
    (job, *_) = three(server)
    assert "no job is named" in headway("stop").err
    assert "is one job, and --tag chooses among many" in headway("stop", job, "--tag", "team").err
    assert f"{job} (sweep-0) is queued, not failed" in headway("retry", "--failed", job).err
    assert headway("rm", "--state", "running", "-y").code == exits.USAGE
    assert headway("retry", "--failed", "nobody").code == exits.NOT_FOUND


def test_tags_are_given_and_taken_whatever_the_state(server: Serving, headway: Callable) -> None:
    (job, *_) = three(server)
    headway("stop", job)
    assert headway("tag", job, "best=yes", "--remove", "team").out == f"{job} (sweep-0) has the tags best=yes\n"
    assert headway("ps", "-a", "-q", "--tag", "best").out.split() == [job]
    assert headway("tag", "--tag", "best", "run=2", "-y").out == "1 job tagged\n"
    assert headway("tag", job).code == exits.USAGE
    assert headway("tag", "best=yes").code == exits.USAGE


def test_an_array_is_one_row_and_its_name_or_id_stands_for_all_its_jobs(server: Serving, headway: Callable) -> None:
    made = headway("submit", "--array", "5%2", "--hold", "--name", "grid", "--", "true")
    array = made.out.strip()
    row = headway("ps").out.splitlines()[1]
    assert row.split()[:3] == [array, "grid", "[5]"]
    assert "[..........] 0 of 5 ended: 5 queued, at most 2 at once" in row
    assert headway("ps", "-q").out.split() == [array]
    assert headway("ps", "--array", "grid", "-q").out.split() == [f"{array}-{at}" for at in range(4, -1, -1)]
    assert "5, at most 2 at once" in headway("describe", "grid").out
    assert headway("why", array).out.startswith(f"{array} 5 waiting (at most 2 at once); the next one waits: held")
    assert "is an array" in headway("fork", array).err
    assert headway("preempt", array).out == f"{array} 0 jobs make room\n"
    assert headway("release", "grid").out == f"{array} 5 jobs released\n"
    assert headway("stop", "grid", "--state", "queued", "-q").out.split()
    assert headway("wait", "grid").code == exits.JOB_CANCELLED
    assert headway("retry", array).out == f"{array} 5 jobs submitted again\n"
    assert headway("stop", array).out == f"{array} 5 jobs asked to end\n"
    assert headway("rm", array).out == f"{array} 10 jobs forgotten\n"
    assert headway("describe", array).code == exits.NOT_FOUND


def test_columns_are_chosen_and_sorted_by(server: Serving, headway: Callable) -> None:
    three(server)
    said = headway("ps", "--columns", "name,tags", "--sort", "name").out.split()
    assert said == ["NAME", "TAGS", "sweep-0", "team=vision", "sweep-1", "team=vision", "sweep-2", "team=vision"]
    assert headway("ps", "--columns", "name", "--sort", "-name").out.split()[1] == "sweep-2"
    assert "QUEUE" in headway("ps", "-o", "wide").out
    assert 'no column "colour"' in headway("ps", "--columns", "colour").err
    assert 'no column "colour"' in headway("ps", "--sort", "-colour").err


def test_a_followed_array_tells_its_counts_and_fails_when_one_of_its_jobs_does(
    server: Serving, headway: Callable, place: Path
) -> None:
    import threading

    def play() -> None:
        server.join()
        for index, code in enumerate((0, 3)):
            key = next(iter(server.until("n1", lambda duties, at=index: any(f"-{at}/" in key for key in duties))))
            array = key.partition("-")[0]
            server.start(f"{array}-{index}/1/0")
            server.end(f"{array}-{index}/1/0", exit_code=code, cause="user_code" if code else None)

    node = threading.Thread(target=play)
    node.start()
    said = headway("run", "--array", "2", "--no-bundle", "--", "true")
    node.join()
    assert said.code == exits.JOB_FAILED
    assert "has ended: 1 succeeded, 1 failed" in said.err
    assert "tries them again" in said.err


def test_a_bar_shows_whatever_is_there_however_little() -> None:
    assert bar({"succeeded": 5, "queued": 5}) == "[#####.....]"
    assert bar({"succeeded": 999, "failed": 1}) == "[#########x]"
    assert bar({"succeeded": 99_999, "running": 1, "queued": 1}) == "[########-.]"
    assert bar({"running": 10}) == "[----------]"
    assert counted({"queued": 1000, "failed": 2}) == "2 failed, 1,000 queued"
