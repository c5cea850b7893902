"""What sets two jobs apart: code, environment, parameters, description, hardware, results, course. Reads only.

Each group is empty when nothing differs; elsewhere a name leads to a pair, the first job's value and the second's.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from headway.control.files.bundle_objects import content_key, read_bundle
from headway.core.errors import HeadwayError
from headway.core.files import checkpoints
from headway.core.files.checkpoints import Gang
from headway.core.model import Job
from headway.core.spec.job import show_spec
from headway.core.spec.params import seed_of
from headway.storage.protocol import Storage
from headway.store.protocol import Store

TEXT_BYTES_MAX = 1 << 20
DIFF_LINES_MAX = 2000
FILES_SHOWN_MAX = 200
ELSEWHERE = ("bundle", "environment", "params", "seed", "resume_from")  # Words of the spec with a group of their own.

Pair = list[Any]


def difference(store: Store, storage: Storage, one: Job, other: Job) -> dict[str, Any]:
    files = [_files(storage, job) for job in (one, other)]
    specs = [show_spec(job.spec) for job in (one, other)]
    params = [{**dict(job.spec.progress.params), "seed": seed_of(job)} for job in (one, other)]
    return {
        "code": _code(storage, *files) if _code_of(one) != _code_of(other) else {},
        "environment": _environment(storage, specs, files) | _found_there(storage, one, other),
        "params": pairs(*params),
        "spec": pairs(*({key: value for key, value in spec.items() if key not in ELSEWHERE} for spec in specs)),
        "hardware": pairs(*(_hardware(store, job) for job in (one, other))),
        "results": pairs(*(_results(store, storage, job) for job in (one, other))),
        "course": pairs(*(_course(job) for job in (one, other))),
    }


def pairs(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The names whose values differ, each with both values; mappings are compared entry by entry."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys([*one, *other]):
        left, right = one.get(name), other.get(name)
        if left == right:
            continue
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            found[name] = pairs(left, right)
        else:
            found[name] = [left, right]
    return found


# --- code -----------------------------------------------------------------------------------------------------------


def _files(storage: Storage, job: Job) -> dict[str, dict[str, Any]] | None:
    """The files of a job's bundle by path; None when it ran in place or the bundle is gone."""
    digest = job.spec.progress.bundle
    if not digest:
        return None
    try:
        manifest = read_bundle(storage, digest)
    except HeadwayError:
        return None
    return {entry["path"]: entry for entry in manifest["files"]}


def _code_of(job: Job) -> str:
    """What the code of a job is known by: its bundle; of one that ran in place, nothing but the job itself."""
    return job.spec.progress.bundle or job.id


def _code(storage: Storage, one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any]:
    if one is None and other is None:
        return {"bundle": "not known: both ran in place, or their code is gone; --bundle keeps it"}
    if one is None or other is None:
        return {
            "bundle": ["ran in place, or its code is gone" if each is None else "a bundle" for each in (one, other)]
        }
    found: dict[str, Any] = {}
    for path in sorted({*one, *other}):
        left, right = one.get(path), other.get(path)
        if left == right:
            continue
        if len(found) >= FILES_SHOWN_MAX:
            found["…"] = "and more files"
            break
        if left is None or right is None:
            found[path] = ["absent" if each is None else "present" for each in (left, right)]
        else:
            found[path] = _change(storage, path, left, right)
    return found


def _change(storage: Storage, path: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> Any:
    if left.get("sha256") == right.get("sha256"):
        return pairs(left, right)
    was, now = _text(storage, left), _text(storage, right)
    if was is None or now is None:
        return [f"{entry.get('size', 0)} bytes" for entry in (left, right)]
    told = list(difflib.unified_diff(was.splitlines(), now.splitlines(), f"a/{path}", f"b/{path}", lineterm=""))
    return "\n".join(told[:DIFF_LINES_MAX])


def _text(storage: Storage, entry: Mapping[str, Any]) -> str | None:
    """The content of a file that is text and not too long; None for all else."""
    if "sha256" not in entry or int(entry["size"]) > TEXT_BYTES_MAX:
        return None
    try:
        content = storage.get(content_key(entry["sha256"]))
        return None if b"\0" in content else content.decode()
    except (HeadwayError, UnicodeDecodeError):
        return None


# --- environment ----------------------------------------------------------------------------------------------------


def _environment(storage: Storage, specs: list[dict[str, Any]], files: list[Any]) -> dict[str, Any]:
    made = [spec.get("environment") for spec in specs]
    packages = [
        _packages(storage, (of or {}).get(each["path"])) if each and each.get("path") else {}
        for each, of in zip(made, files, strict=True)
    ]
    found = {} if made[0] == made[1] else pairs(*({"made of": each and each["kind"]} for each in made))
    differing = pairs(*packages)
    if differing:
        found["packages"] = differing
    elif made[0] != made[1] and not found:
        found["definition"] = [each and each.get("digest", "")[:12] for each in made]
    return found


def _found_there(storage: Storage, one: Job, other: Job) -> dict[str, Any]:
    """How the Pythons that ran differ, where the nodes have looked at both: that outranks what files ask for."""
    found = [_noted(storage, job) for job in (one, other)]
    return pairs(*found) if all(found) else {}


def _noted(storage: Storage, job: Job) -> dict[str, Any]:
    """The version of a job's Python, and its packages, as its node has seen them; nothing of one that ended soon."""
    key = f"jobs/{job.id}/{job.number}/packages/0.json"
    try:
        size = storage.size(key)
        found = json.loads(storage.get(key)) if size is not None and size <= TEXT_BYTES_MAX else {}
        return {"python": str(found["python"]), "packages": dict(found["packages"])} if found else {}
    except (HeadwayError, ValueError, KeyError, TypeError):
        return {}


def _packages(storage: Storage, entry: Mapping[str, Any] | None) -> dict[str, str]:
    """Package versions that a lock or a list of requirements names."""
    text = _text(storage, entry) if entry else None
    if not text:
        return {}
    assert entry is not None
    if str(entry["path"]).endswith((".lock", ".toml")):
        try:
            found = tomllib.loads(text).get("package", [])
            return {str(each["name"]): str(each.get("version", "")) for each in found if "name" in each}
        except (tomllib.TOMLDecodeError, TypeError, AttributeError):
            return {}
    pattern = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^]]*\])?\s*([=<>!~].*)?$")
    lines = (line.split("#")[0].split(";")[0].strip() for line in text.splitlines())
    matches = (pattern.match(line) for line in lines)
    return {match.group(1).lower(): (match.group(2) or "").strip() for match in matches if match}


# --- hardware and results -------------------------------------------------------------------------------------------


def _hardware(store: Store, job: Job) -> dict[str, Any]:
    if job.attempt is None:
        return {}
    found = [store.node(node) for node in job.attempt.nodes]
    nodes = [node for node in found if node is not None]
    return {
        "nodes": len(job.attempt.nodes),
        "pools": sorted({node.pool for node in nodes}),
        "cpus": sum(node.granted.cpus for node in nodes),
        "memory_bytes": sum(node.granted.memory_bytes for node in nodes),
        "gpus": sum(node.granted.gpus for node in nodes),
        "kinds": sorted({node.kind for node in nodes}),
    }


def _results(store: Store, storage: Storage, job: Job) -> dict[str, Any]:
    """What a job that is repeated exactly gives again, bit by bit."""
    attempt = job.attempt
    newest = checkpoints.newest(store.checkpoints(job.id), Gang.of(job.spec))
    kept = {each.path: each.sha256[:16] for each in store.artifacts(job.id)}
    return {
        "state": job.state.value,
        "cause": job.cause.value if job.cause else None,
        "exit_code": attempt.exit_code if attempt else None,
        "step": newest.step if newest else None,
        "metrics": newest.metrics if newest else {},
        "checkpoint": _content(storage, newest) if newest else {},
        "artifacts": kept,
    }


def _content(storage: Storage, whole: checkpoints.Whole) -> dict[str, str]:
    """The files of a checkpoint, each with a hash of the hashes of its parts."""
    found: dict[str, str] = {}
    for part in whole.parts:
        try:
            files = json.loads(storage.get(part.key))["files"]
        except (HeadwayError, ValueError, KeyError):
            continue  # Let go, or damaged: there is nothing to compare.
        for file in files[:FILES_SHOWN_MAX]:
            said = "".join(piece["sha256"] for piece in file["parts"]) or file.get("link", "")
            name = file["path"] if not part.task else f"{file['path']} (task {part.task})"
            found[name] = hashlib.sha256(said.encode()).hexdigest()[:16]
    return found


def _course(job: Job) -> dict[str, Any]:
    """How it went, which no repetition gives again."""
    attempt, ran_s = job.attempt, None
    if attempt is not None and attempt.started_at is not None and attempt.ended_at is not None:
        ran_s = round(attempt.ended_at - attempt.started_at, 1)
    return {"attempts": job.number, "seconds": ran_s}
