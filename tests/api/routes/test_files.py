"""Progress over HTTP, with played agents: checkpoints, artifacts, forks, reruns, differences, objects."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.core.spec.bundle import packed, read_manifest
from tests.api.serving import Serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    with Serving(tmp_path, price=3.6) as serving:
        serving.join()
        yield serving


def upload(server: Serving, files: dict[str, bytes], **git: Any) -> str:
    """A bundle of these files, brought as the client brings it."""
    entries = []
    for path, content in files.items():
        sha256 = hashlib.sha256(content).hexdigest()
        entries.append({"path": path, "sha256": sha256, "size": len(content), "mode": 0o644})
        if server.ok("POST", "/bundles/missing", {"files": [sha256]})["missing"]:
            server.ok("PUT", f"/bundles/files/{sha256}", content)
    digest = read_manifest({"files": entries}).digest
    server.ok("PUT", f"/bundles/{digest}", {"files": entries, "git": git})
    return digest


def test_a_preempted_job_goes_on_from_its_newest_checkpoint_and_the_account_says_what_was_lost(server: Serving) -> None:
    job = server.submit(command=["python", "train.py", "--lr", "0.5"], params={"lr": 0.1}, seed=7)
    claim = server.start(f"{job}/1/0")
    assert claim["argv"] == ["python", "train.py", "--lr", "0.1"]
    assert claim["resume"] is None
    assert claim["progress"]["params"] == {"lr": 0.1}
    assert claim["progress"]["seed"] == 7
    key = server.save(f"{job}/1/0", 100, {"m.pt": b"weights"}, metrics={"loss": 0.5})
    server.sync(steps={f"{job}/1/0": 130})
    server.ok("POST", f"/jobs/{job}/preempt", {"grace_s": 5})
    stop = server.until("n1", lambda duties: duties[f"{job}/1/0"]["do"] == "stop")[f"{job}/1/0"]
    assert stop["grace_s"] < 5.1, stop
    assert stop["cause"] == "preempted"
    server.end(f"{job}/1/0", exit_code=None, signal=15, cause="cancelled")
    claim = server.start(f"{job}/2/0")
    assert claim["resume"] == {"step": 100, "key": key, "how": "renamed"}
    server.save(f"{job}/2/0", 200, {"m.pt": b"more"})
    server.end(f"{job}/2/0")

    detail = server.ok("GET", f"/jobs/{job}")
    assert detail["state"] == "succeeded"
    first, second = detail["attempts"]
    assert (first["seen_step"], first["committed_step"], first["steps_lost"], first["cause"]) == (
        130, 100, 30, "preempted",
    )  # fmt: skip
    assert (second["resumed_step"], second["committed_step"], second["steps_lost"]) == (100, 200, 0)
    account = detail["account"]
    assert account["total"]["steps"] == account["by_cause"]["preempted"]["steps"] == 30
    assert account["total"]["money"] == pytest.approx(account["total"]["seconds"] * 0.001, abs=1e-3)
    assert detail["checkpoint"]["step"] == 200
    assert detail["retries"] == {"user": 0, "platform": 0, "capacity": 1}
    listed = server.ok("GET", f"/jobs/{job}/checkpoints")["checkpoints"]
    assert [(each["step"], each["attempt"], each["resumable"]) for each in listed] == [(200, 2, True), (100, 1, True)]
    assert listed[1]["metrics"] == {"loss": 0.5}
    path = f"/api/v1/jobs/{job}/checkpoints/200/raw?path=m.pt"
    assert server.ask("GET", path).data == b"more"
    assert server.ask("GET", path, headers={"Range": "bytes=1-2"}).data == b"or"
    files = server.ok("GET", f"/jobs/{job}/checkpoints/200/files")["files"]
    assert files == [{"task": 0, "path": "m.pt", "size": 4}]
    assert server.ask("GET", f"/api/v1/jobs/{job}/checkpoints/150/files").status == 404
    kinds = [each["kind"] for each in server.ok("GET", f"/events/page?job={job}&limit=100")["events"]]
    assert kinds.count("CheckpointCommitted") == 2


def test_a_checkpoint_can_be_pinned_and_a_missing_one_cannot(server: Serving) -> None:
    job = server.submit(checkpoint={"keep_last": 1})
    server.start(f"{job}/1/0")
    server.save(f"{job}/1/0", 1, {"a": b"1"})
    server.ok("POST", f"/jobs/{job}/checkpoints/1/pin", {"pinned": True})
    for step in (2, 3):
        server.save(f"{job}/1/0", step, {"a": b"2"})
    assert [each["step"] for each in server.ok("GET", f"/jobs/{job}/checkpoints")["checkpoints"]] == [3, 1]
    answer = server.ask("POST", f"/api/v1/jobs/{job}/checkpoints/9/pin", {"pinned": True})
    assert (answer.status, answer.json["hint"]) == (404, "there are steps 1, 3")


def test_a_fork_begins_from_a_checkpoint_of_another_job_with_other_parameters(server: Serving) -> None:
    job = server.submit(command=["train", "--lr=1"], params={"lr": 1})
    server.start(f"{job}/1/0")
    key = server.save(f"{job}/1/0", 5, {"m": b"x"})
    server.save(f"{job}/1/0", 6, {"m": b"y"})
    server.end(f"{job}/1/0")
    refused = server.ask("POST", f"/api/v1/jobs/{job}/fork", {"step": 7})
    assert (refused.status, refused.json["hint"]) == (404, "there are steps 5, 6")
    seed = server.ok("GET", f"/jobs/{job}")["seed"]
    made = [server.ok("POST", f"/jobs/{job}/fork", {"step": 5, "set": {"lr": 3e-5}, "key": "k"}) for _ in range(2)]
    fork = made[0]["job"]["id"]
    assert made[1]["job"]["id"] == fork
    claim = server.start(f"{fork}/1/0")
    assert claim["resume"] == {"step": 5, "key": key, "how": "renamed"}
    assert (claim["argv"], claim["progress"]["seed"]) == (["train", "--lr=3e-05"], seed)
    # The job that made the checkpoint may be forgotten; the fork's own retry still goes on from it.
    server.ok("DELETE", f"/jobs/{job}")
    server.ok("POST", f"/jobs/{fork}/preempt", {})
    server.end(f"{fork}/1/0", exit_code=None, cause="cancelled")
    assert server.start(f"{fork}/2/0")["resume"]["key"] == key
    server.end(f"{fork}/2/0")
    again = server.ok("POST", f"/jobs/{fork}/rerun", {})["job"]["id"]
    assert server.start(f"{again}/1/0")["resume"]["key"] == key


@pytest.mark.parametrize(("body", "status", "words"), [
    ({"step": 77}, 404, "no complete checkpoint at step 77"),
    ({"step": -1}, 422, "step: -1"),
    ({"set": {"lr": [1]}}, 422, "set.lr: expected a text, a number"),
    ({"sett": {}}, 422, 'did you mean "set"?'),
    ({"set": [1]}, 422, "set: expected names and values"),
    ({"set": {"lrr": 1}}, 422, 'the job has no parameter "lrr" did you mean "lr"?'),
    ({"set": {"depth": 1}}, 422, "it has lr; --set params.depth=VALUE adds one"),
    ({"changes": {"retires": 1}}, 422, 'did you mean "retries"?'),
    ({"changes": {"resources": {"gpus": -1}}}, 422, "resources.gpus: -1 is outside"),
    ({"changes": {"array": 3}}, 422, "array: a job that is done again is one job"),
    ({"changes": {"queue": "nowhere"}}, 422, "nowhere"),
])  # fmt: skip
def test_a_fork_that_cannot_be_is_refused(server: Serving, body: dict[str, Any], status: int, words: str) -> None:
    job = server.submit(command=["train", "--lr", "1"])
    answer = server.ask("POST", f"/api/v1/jobs/{job}/fork", body)
    assert answer.status == status
    assert words in f"{answer.json['detail']} {answer.json['hint']}"


def test_a_rerun_differs_in_what_is_changed_and_in_nothing_else(server: Serving) -> None:
    job = server.submit(
        command=["train", "--lr=1", "--batch-size", "8"], params={"lr": 1}, env={"A": "1", "B": "2"}, retries=1,
        retry={"platform_max": 3}, max_duration="1h", tags={"t": "1"},
    )  # fmt: skip
    changes = {"env": {"A": None, "C": "3"}, "retries": 4, "max_duration": None, "name": "other", "tags": {"u": "2"}}
    body = {"set": {"lr": 2, "batch_size": 16}, "changes": changes, "key": "k"}
    made = [server.ok("POST", f"/jobs/{job}/rerun", body)["job"]["id"] for _ in range(2)]
    assert made[0] == made[1]
    refused = server.ask("POST", f"/api/v1/jobs/{job}/rerun", {**body, "changes": {}})
    assert refused.status == 409
    old, new = (server.ok("GET", f"/jobs/{each}") for each in (job, made[0]))
    assert (new["name"], new["seed"]) == ("other", old["seed"])
    spec = new["spec"]
    assert (spec["env"], spec["tags"]) == ({"B": "2", "C": "3"}, {"t": "1", "u": "2"})
    assert (spec["retries"], spec["retry"]["max"], spec["retry"]["platform_max"]) == (4, 4, 3)
    assert (spec["max_duration"], spec["params"]) == (None, {"lr": 2, "batch_size": 16})
    again = {"name", "env", "tags", "retries", "retry", "max_duration", "params", "seed"}
    assert {key for key in old["spec"] | spec if old["spec"].get(key) != spec.get(key)} == again
    claim = server.start(f"{made[0]}/1/0")
    assert claim["argv"] == ["train", "--lr=2", "--batch-size", "16"]


def test_retrying_an_ended_job_goes_on_from_its_newest_checkpoint(server: Serving) -> None:
    job = server.submit()
    server.start(f"{job}/1/0")
    key = server.save(f"{job}/1/0", 5, {"m": b"x"})
    server.end(f"{job}/1/0", exit_code=1, cause="user_code")
    again = server.ok("POST", f"/jobs/{job}/retry")["job"]["id"]
    assert again != job
    assert server.start(f"{again}/1/0")["resume"]["key"] == key


def test_a_retry_that_is_said_again_with_its_key_makes_no_second_job(server: Serving) -> None:
    job = server.submit()
    server.start(f"{job}/1/0")
    server.end(f"{job}/1/0", exit_code=1, cause="user_code")
    first, second = (server.ok("POST", f"/jobs/{job}/retry", {"key": "k"})["job"]["id"] for _ in range(2))
    assert first == second != job
    assert server.ok("POST", f"/jobs/{job}/retry", {"key": "other"})["job"]["id"] not in (job, first)


def test_a_rerun_has_the_same_seed_and_everything_else(server: Serving) -> None:
    bundle = upload(server, {"train.py": b"print(1)\n"})
    job = server.submit(bundle=bundle, params={"lr": 0.5}, inputs={"data": "/data"}, tags={"a": "b"})
    again = server.ok("POST", f"/jobs/{job}/rerun", {})["job"]["id"]
    one, other = (server.ok("GET", f"/jobs/{each}") for each in (job, again))
    assert one["seed"] == other["seed"] == other["spec"]["seed"]
    assert {**one["spec"], "seed": one["seed"]} == other["spec"]


def test_two_jobs_are_compared_by_code_packages_parameters_and_results(server: Serving) -> None:
    locks = [b'[[package]]\nname = "numpy"\nversion = "%d"\n' % number for number in (1, 2)]
    bundles = [
        upload(server, {"train.py": b"a\nb\n", "uv.lock": locks[0], "same": b"x"}, commit="c1"),
        upload(server, {"train.py": b"a\nc\n", "uv.lock": locks[1], "same": b"x", "new": b""}),
    ]
    jobs = [
        server.submit(bundle=bundle, params={"lr": number}, seed=1, environment={"kind": "uv-lock", "path": "uv.lock"})
        for number, bundle in enumerate(bundles)
    ]
    for number, job in enumerate(jobs):
        server.start(f"{job}/1/0")
        server.save(f"{job}/1/0", 5, {"same": b"x", "model.pt": b"%d" % number})
        server.end(f"{job}/1/0", exit_code=number, cause="user_code" if number else None)
    found = server.ok("GET", f"/jobs/{jobs[0]}/diff/{jobs[1]}")
    assert "-b\n+c" in found["code"]["train.py"]
    assert found["code"]["new"] == ["absent", "present"]
    assert "same" not in found["code"]
    assert found["environment"] == {"packages": {"numpy": ["1", "2"]}}
    assert found["params"] == {"lr": [0, 1]}
    assert found["results"]["state"] == ["succeeded", "failed"]
    assert list(found["results"]["checkpoint"]) == ["model.pt"]
    assert found["hardware"] == found["spec"] == {}
    assert not any(server.ok("GET", f"/jobs/{jobs[0]}/diff/{jobs[0]}").values())


def test_the_code_of_jobs_that_ran_in_place_is_not_called_the_same(server: Serving) -> None:
    one, other = server.submit(), server.submit()
    found = server.ok("GET", f"/jobs/{one}/diff/{other}")
    assert found["code"]["bundle"].startswith("not known: both ran in place")
    assert server.ok("GET", f"/jobs/{one}/diff/{one}")["code"] == {}


def test_artifacts_are_listed_and_read_in_ranges_with_their_parts_joined(server: Serving) -> None:
    job = server.submit(outputs=["output/"])
    assert server.start(f"{job}/1/0")["progress"]["outputs"] == ["output"]
    keys = [f"jobs/{job}/1/output/big.part-000{number}" for number in (1, 2)]
    for key, content in zip(keys, (b"abc", b"defg"), strict=True):
        assert server.ask("PUT", f"/agent/objects/{key}", content).status == 204
    entry = {"task": f"{job}/1/0", "path": "big", "size": 7, "sha256": "ab", "keys": keys, "at": 0.0}
    reply = server.sync(artifacts=[entry])
    assert reply["artifacts_safe"] == [[f"{job}/1/0", "big"]]
    (listed,) = server.ok("GET", f"/jobs/{job}/artifacts")["artifacts"]
    assert (listed["path"], listed["size"], listed["attempt"], listed["task"]) == ("big", 7, 1, 0)
    path = f"/api/v1/jobs/{job}/artifacts/raw?path=big"
    assert server.ask("GET", path).data == b"abcdefg"
    part = server.ask("GET", f"{path}&attempt=1", headers={"Range": "bytes=2-4"})
    assert (part.status, part.data, part.headers["content-range"]) == (206, b"cde", "bytes 2-4/7")
    assert server.ask("GET", path, headers={"Range": "bytes=7-"}).status == 416
    assert server.ask("GET", f"{path}x").status == 404


def test_objects_are_written_only_by_living_attempts(server: Serving) -> None:
    job = server.submit()
    server.start(f"{job}/1/0")
    large = bytes(3 * 2**20) + b"end"
    key = f"jobs/{job}/1/parts/0-1"
    assert server.ask("PUT", f"/agent/objects/{key}", large).status == 204
    assert server.storage.get(key) == large
    assert server.ask("GET", f"/agent/objects/{key}", headers={"Range": f"bytes={3 * 2**20}-"}).data == b"end"
    for wrong in (f"jobs/{job}/2/x", f"jobs/{job}/1/", "jobs/none/1/x", "bundles/x.json", "secret", "jobs/../x"):
        assert server.ask("PUT", f"/agent/objects/{wrong}", b"x").status in (403, 404, 422), wrong
    assert server.ask("GET", "/agent/objects/jobs/none").status == 404
    assert server.ask("GET", "/agent/objects/secret").status == 403
    server.end(f"{job}/1/0")
    assert server.ask("PUT", f"/agent/objects/{key}", b"zombie").status == 403


def test_a_bundle_is_complete_only_when_all_its_contents_are_there(server: Serving) -> None:
    sha256 = hashlib.sha256(b"x").hexdigest()
    entries = [{"path": "a.py", "sha256": sha256, "size": 1, "mode": 420}, {"path": "l", "link": "a.py", "mode": 511}]
    digest = read_manifest({"files": entries}).digest
    assert server.ok("POST", "/bundles/missing", {"files": [sha256]})["missing"] == [sha256]
    early = server.ask("PUT", f"/api/v1/bundles/{digest}", {"files": entries})
    assert (early.status, "was not uploaded" in early.json["detail"]) == (409, True)
    assert server.ask("PUT", f"/api/v1/bundles/files/{sha256}", b"y").status == 422
    server.ok("PUT", f"/bundles/files/{sha256}", b"x")
    assert server.ask("PUT", f"/api/v1/bundles/{'0' * 64}", {"files": entries}).status == 422
    server.ok("PUT", f"/bundles/{digest}", {"files": entries, "git": {"commit": "c"}})
    assert server.ok("GET", f"/bundles/{digest}")["git"] == {"commit": "c"}
    assert json.loads(server.ask("GET", f"/agent/objects/bundles/{digest}.json").data)["files"] == entries
    answer = server.ask("POST", "/api/v1/jobs", {"job": {"command": ["x"], "bundle": "1" * 64}})
    assert (answer.status, "no bundle" in answer.json["detail"]) == (422, True)


def test_many_small_contents_travel_in_one_request_and_a_bad_one_spoils_it(server: Serving) -> None:
    contents = [f"content {number}".encode() for number in range(300)]
    names = [hashlib.sha256(content).hexdigest() for content in contents]
    pack = b"".join(map(packed, names, contents))
    for bad in (pack[:-1], pack + b"x", pack + packed("0" * 64, b"another"), packed("1" * 64, bytes(2**20 + 1))):
        assert server.ask("PUT", "/api/v1/bundles/files", bad).status == 422
    assert server.ok("POST", "/bundles/missing", {"files": names})["missing"] == names
    server.ok("PUT", "/bundles/files", pack)
    server.ok("PUT", "/bundles/files", pack)
    assert server.ok("POST", "/bundles/missing", {"files": names})["missing"] == []
    assert server.ask("GET", f"/agent/objects/bundles/files/{names[7]}").data == contents[7]
    many = b"".join(packed(hashlib.sha256(b"%d" % number).hexdigest(), b"%d" % number) for number in range(2001))
    assert server.ask("PUT", "/api/v1/bundles/files", many).status == 422
