"""The SDK: jobs are submitted, listed, followed and stopped through a Client; a JobHandle stands for one of them.

A thin cover over the API: what the server answers is handed on as it is. Nothing here decides anything. The twins for
asyncio are in async_sdk.py; docs/reference/sdk.md is written from the docstrings.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from headway import settings
from headway.client.connection import embedded
from headway.client.connection.http import Address, ServerLink
from headway.client.connection.patience import Acquaintances
from headway.client.job_handle import JobHandle
from headway.core.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from headway.client.accounts import AccountCalls
    from headway.client.cluster import ClusterCalls
    from headway.client.code.bundle import ReadBundle, SentBundle
    from headway.client.code.prepared_job import Packing, PreparedJob
    from headway.client.selected import SelectedJobs
    from headway.client.story import Chunk
    from headway.features.metrics.client import Metrics
    from headway.features.schedules.client import Schedules
    from headway.features.secrets.client import Secrets

LONG_POLL_S = 20.0
FRESH_S = 0.5  # How long a look at a running job's log waits for what its nodes have not told yet.
PAGE = 1000

# A script, a command as a list, or a description.
Described = str | PathLike[str] | Sequence[str | PathLike[str]] | Mapping[str, Any]


class JobFilter(TypedDict, total=False):
    """What `Client.jobs` may be narrowed by."""

    state: str
    project: str
    user: str
    queue: str
    name: str
    tag: str | Sequence[str]
    older_than: str
    array: str
    grouped: bool | str


class Client:
    """A way to a server: the one of the setting `server_url`, or the embedded one, which is started when it is needed.

    `env` stands in for `os.environ`: settings such as `HEADWAY_SERVER_URL` and `HEADWAY_TOKEN` are read from it.
    `patience_s` says how long a server that does not answer is waited for. One client is for one thread at a time.
    """

    def __init__(self, env: Mapping[str, str] | None = None, *, patience_s: float | None = None) -> None:
        self.env = os.environ if env is None else env
        self.resolved = settings.load(self.env)
        self.home = settings.home_from(self.env)
        chosen = self.resolved.settings
        # Whoever sets how long to wait waits for strangers too: their address may be right.
        insists = not chosen.server_url or self.resolved.sources["server_wait_s"] != "built in"
        if patience_s is None:
            patience_s = chosen.server_wait_s if chosen.server_url else chosen.auto_start_s_max
        self.link = ServerLink(self._locate, patience_s, met=None if insists else Acquaintances(self.home))

    def _locate(self) -> Address:
        return embedded.locate(self.resolved, self.home, self.env, self.link.watch)

    @property
    def house(self) -> ClusterCalls:
        """Queues, pools, licences, arrays and the outlook."""
        from headway.client.cluster import ClusterCalls

        return ClusterCalls(self.link)

    @property
    def selected(self) -> SelectedJobs:
        """Many jobs at once, chosen by what they are."""
        from headway.client.selected import SelectedJobs

        return SelectedJobs(self.link)

    @property
    def accounts(self) -> AccountCalls:
        """Users, projects, tokens, and the audit log."""
        from headway.client.accounts import AccountCalls

        return AccountCalls(self.link)

    @property
    def secrets(self) -> Secrets:
        """Set and listed by name; no call brings a value back."""
        from headway.features.secrets.client import Secrets

        return Secrets(self.link)

    @property
    def schedules(self) -> Schedules:
        """Jobs that are submitted again and again."""
        from headway.features.schedules.client import Schedules

        return Schedules(self.link)

    @property
    def metrics(self) -> Metrics:
        """What jobs have logged: series, points and parameters."""
        from headway.features.metrics.client import Metrics

        return Metrics(self.link)

    def on_trouble(self, tell: Callable[[str], None]) -> None:
        """Let somebody know when the server does not answer and the call is tried again."""
        self.link.on_trouble = tell

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def another(self) -> Self:
        """A client of its own for the same server, as another thread needs it."""
        from copy import copy

        made = copy(self)
        made.link = self.link.another()
        return made

    def submit(
        self, job: Described, *args: str | PathLike[str], key: str | None = None, force: bool = False, **wishes: Any
    ) -> JobHandle:
        """Submit a job and return at once: a script with its arguments, a command as a list, or a description (a dict).

        The wishes are a job file's keys, and `cpus`, `memory` and `gpus`; they win over the dict. `bundle=True` sends
        the project along, `bundle=False` runs in place; `environment="auto"` makes the packages. The key makes it safe
        to repeat: one key, one job. `force=True` submits what nothing here can run yet.
        """
        prepared = self.describe(job, *args, **wishes)
        warn_of(prepared.notes)
        return self.submit_prepared(prepared, key, force)

    def describe(self, job: Described, *args: str | PathLike[str], **wishes: Any) -> PreparedJob:
        """What `submit` would send: the description, complete and checked, and the bundle that goes before it."""
        from headway.client.code.prepared_job import take_packing
        from headway.client.code.script import describe_job
        from headway.core.spec.job import read_spec

        words, given = _words_and_wishes(job, args)
        given |= wishes
        packing = take_packing(given)
        raw = describe_job(words, given, self.env, os.getcwd(), verbatim=not isinstance(job, str | PathLike))
        read_spec(raw)
        prepared = self.prepare(raw, packing)
        read_spec(prepared.raw)
        return prepared

    def submit_prepared(self, prepared: PreparedJob, key: str | None = None, force: bool = False) -> JobHandle:
        """Submit what `describe` has made: its bundle first, then the job."""
        if prepared.bundle is not None:
            self.send_bundle(prepared.bundle)
        return self.submit_raw(prepared.raw, key, force)

    def submit_raw(self, raw: Mapping[str, Any], key: str | None = None, force: bool = False) -> JobHandle:
        """Submit a description just as the server shall read it: no directory, interpreter or variable is added."""
        asked: dict[str, Any] = {"job": dict(raw), "key": key or new_key()}
        answer = self._json("POST", "/jobs", {**asked, "force": True} if force else asked)
        return JobHandle(self, answer["job"], answer.get("array"))

    def prepare(self, raw: dict[str, Any], packing: Packing) -> PreparedJob:
        """Settle where the code and the packages of a described job come from; sends nothing."""
        from headway.client.code.prepared_job import Surroundings, prepare

        chosen = self.resolved.settings
        here = Surroundings(chosen.bundle, bool(chosen.server_url), self.home.cache, self.env, chosen.pass_env)
        self.link.watch.begin(f"reading the files of {raw.get('workdir') or 'the project'}")
        try:
            return prepare(raw, packing, here)
        finally:
            self.link.watch.end()

    def send_bundle(
        self, bundle: ReadBundle, on_progress: Callable[[SentBundle], None] = lambda sent: None
    ) -> SentBundle:
        """Bring the server those files of a bundle that it does not know."""
        from headway.client.code.bundle import send

        return send(self.link, bundle, on_progress)

    def submit_many(self, raws: Sequence[Mapping[str, Any]], key: str | None = None, force: bool = False) -> list[str]:
        """Submit many jobs in one request, all or none; returns their ids in order. They may wait for each other."""
        asked: dict[str, Any] = {"jobs": [dict(raw) for raw in raws], "key": key or new_key()}
        answer = self._json("POST", "/jobs/batch", {**asked, "force": True} if force else asked)
        return list(answer["ids"])

    def jobs(self, *, limit: int = 50, **only: Unpack[JobFilter]) -> list[dict[str, Any]]:
        """The newest jobs first, as summaries; narrowed by state, project, user, queue, name, tag, older_than or array.

        `state` may be several, with commas; `name` a pattern (`fit-*`); `tag` a `K` or `K=V`, or a list of them;
        `older_than` a time such as `7d`. With `grouped=True` an array is one of them, with `states` and `count`.
        """
        unknown = set(only) - set(JobFilter.__annotations__)
        if unknown:
            raise TypeError(f"jobs: {sorted(unknown)[0]!r} is not one of {', '.join(JobFilter.__annotations__)}")
        found: list[dict[str, Any]] = []
        before: int | None = None
        while len(found) < limit:
            page = self._json("GET", "/jobs", query={**only, "limit": min(limit - len(found), PAGE), "before": before})
            found += page["jobs"]
            before = page["next"]
            if before is None or not page["jobs"]:
                break
        return found

    def job(self, ref: str) -> JobHandle:
        """The job of this id, unique beginning of an id, or name (the newest)."""
        return JobHandle(self, self.detail(ref))

    def detail(self, ref: str) -> dict[str, Any]:
        """All that is known of a job: its summary, description, attempts and places."""
        return self._dict("GET", f"/jobs/{_word(ref)}")

    def why(self, ref: str) -> dict[str, Any]:
        """Why a job is in the state that it is in: a sentence, and the evidence for it."""
        return self._dict("GET", f"/jobs/{_word(ref)}/why")

    def stop(self, ref: str, grace_s: float | None = None, drop_files: bool = False) -> dict[str, Any]:
        """Ask a job to end. One that has ended, and whose files are being saved, only with `drop_files`."""
        said = {"grace_s": grace_s, **({"drop_files": True} if drop_files else {})}
        answer = self._json("POST", f"/jobs/{_word(ref)}/stop", said)
        return dict(answer["job"])

    def retry(self, ref: str) -> dict[str, Any]:
        """Let a backing-off job go now; of an ended job, make a new one: only one, however often the answer is lost."""
        self._check_workdir(ref)
        answer = self._json("POST", f"/jobs/{_word(ref)}/retry", {"key": new_key()})
        return dict(answer["job"])

    def preempt(self, ref: str, grace_s: float | None = None) -> dict[str, Any]:
        """Let a job make room: it is told, may save within its grace, and starts again from its newest checkpoint."""
        answer = self._json("POST", f"/jobs/{_word(ref)}/preempt", {"grace_s": grace_s})
        return dict(answer["job"])

    def checkpoints(self, ref: str) -> list[dict[str, Any]]:
        """The checkpoints that are kept of a job, the newest first."""
        return list(self._json("GET", f"/jobs/{_word(ref)}/checkpoints")["checkpoints"])

    def checkpoint_files(self, ref: str, step: int, parts: bool = False) -> list[dict[str, Any]]:
        """What a checkpoint consists of: the first files of each task; with `parts`, all of them, with their hashes."""
        query = {"parts": "true"} if parts else {}
        return list(self._json("GET", f"/jobs/{_word(ref)}/checkpoints/{int(step)}/files", query=query)["files"])

    def checkpoint_pieces(
        self, ref: str, step: int, file: Mapping[str, Any], start: int = 0
    ) -> Iterator[tuple[int, bytes]]:
        """The bytes of one file of a checkpoint from an offset on, each piece with its place."""
        query = {"path": file["path"], "task": file.get("task", 0)}
        return self.link.pieces(f"/jobs/{_word(ref)}/checkpoints/{int(step)}/raw", query, start)

    def pin(self, ref: str, step: int, pinned: bool = True) -> None:
        """Keep a checkpoint whatever the retention says, or no longer."""
        self._json("POST", f"/jobs/{_word(ref)}/checkpoints/{int(step)}/pin", {"pinned": pinned})

    def fork(
        self,
        ref: str,
        step: int | None = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> JobHandle:
        """Submit a new job that begins from a checkpoint of another (the newest, without a step).

        `params` are other values of its parameters, `changes` other words of its description: see `rerun`.
        """
        return self._again(ref, "fork", params, changes, key, step=step)

    def rerun(
        self,
        ref: str,
        key: str | None = None,
        params: Mapping[str, Any] | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> JobHandle:
        """Submit the same job anew: the same code, packages, inputs, parameters and seed, but for changes.

        `changes` are other words of its description, such as `{"resources": {"gpus": 2}}`; None takes one away.
        """
        return self._again(ref, "rerun", params, changes, key)

    def _again(
        self,
        ref: str,
        how: str,
        params: Mapping[str, Any] | None,
        changes: Mapping[str, Any] | None,
        key: str | None,
        **more: Any,
    ) -> JobHandle:
        if "workdir" not in (changes or {}):
            self._check_workdir(ref)
        asked: dict[str, Any] = {**more, "key": key or new_key()}
        asked |= {"set": dict(params)} if params else {}
        asked |= {"changes": dict(changes)} if changes else {}
        return JobHandle(self, self._json("POST", f"/jobs/{_word(ref)}/{how}", asked)["job"])

    def _check_workdir(self, ref: str) -> None:
        """Refuse to do a job again whose directory is gone. With a shared server it need not be on this machine."""
        if self.resolved.settings.server_url:
            return
        job = self.detail(ref)
        workdir = (job.get("spec") or {}).get("workdir")
        if workdir and not os.path.exists(workdir):
            hint = "make it again, or submit from where its files are now; --bundle keeps what a job was made from"
            raise BadInput(f"{job['id']} ran in {workdir}, which is gone", hint)

    def diff(self, one: str, other: str) -> dict[str, Any]:
        """What differs between two jobs: code, packages, parameters, results."""
        return self._dict("GET", f"/jobs/{_word(one)}/diff/{_word(other)}")

    def artifacts(self, ref: str) -> list[dict[str, Any]]:
        """The files that are kept of a job, with attempt, path, size and hash."""
        return list(self._json("GET", f"/jobs/{_word(ref)}/artifacts")["artifacts"])

    def artifact_pieces(self, ref: str, artifact: Mapping[str, Any], start: int = 0) -> Iterator[tuple[int, bytes]]:
        """The bytes of an artifact from an offset on, each piece with its place."""
        query = {"attempt": artifact["attempt"], "task": artifact.get("task", 0), "path": artifact["path"]}
        return self.link.pieces(f"/jobs/{_word(ref)}/artifacts/raw", query, start)

    def forget(self, ref: str) -> None:
        """Delete the record of an ended job, and its logs."""
        self.link.call("DELETE", f"/jobs/{_word(ref)}")

    def wait(self, ref: str, timeout_s: float | None = None) -> tuple[dict[str, Any], bool]:
        """Wait until the job has ended, or the time is up; returns its detail and whether it has ended."""
        give_up_at = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = LONG_POLL_S if give_up_at is None else min(LONG_POLL_S, max(0.0, give_up_at - time.monotonic()))
            answer = self._json("GET", f"/jobs/{_word(ref)}/wait", query={"timeout_s": left_s}, wait_s=left_s)
            if answer["ended"] or (give_up_at is not None and time.monotonic() >= give_up_at):
                return dict(answer["job"]), bool(answer["ended"])

    def logs_index(self, ref: str, fresh: bool = False, times: bool = False) -> list[dict[str, Any]]:
        """What output there is; a fresh one has what a running job wrote until now, if its nodes answer at once.

        With `times`, the ranges of each file are as small as it is known when they were written.
        """
        query: dict[str, Any] = {"fresh_s": FRESH_S} if fresh else {}
        query |= {"times": "true"} if times else {}
        return list(self._json("GET", f"/jobs/{_word(ref)}/logs", query=query)["attempts"])

    def logs_raw(
        self,
        ref: str,
        attempt: int,
        offset: int,
        *,
        task: int = 0,
        rank: int = 0,
        stream: str = "out",
        limit: int = 1 << 20,
        wait_s: float = 0.0,
    ) -> Chunk:
        """Bytes of one log file from an offset on; with `wait_s`, as soon as there are any."""
        from headway.client.story import Chunk

        query = {"attempt": attempt, "task": task, "rank": rank, "stream": stream}
        query |= {"offset": offset, "limit": limit, "wait_s": wait_s}
        answer = self.link.call("GET", f"/jobs/{_word(ref)}/logs/raw", query=query, wait_s=wait_s)
        skipped = int(answer.headers.get("headway-skipped") or 0)
        following = answer.headers.get("headway-next-offset")
        return Chunk(
            data=answer.body,
            following=int(following) if following else offset + skipped + len(answer.body),
            skipped=skipped,
            damaged=int(answer.headers.get("headway-damaged") or 0),
            done=answer.headers.get("headway-done", "").lower() == "true",
            times=_times(answer.headers.get("headway-times") or ""),
        )

    def past_events(self, job: str = "", most: int = 500) -> list[dict[str, Any]]:
        """The newest events, oldest first: of one job, by its id, or of all."""
        found: list[dict[str, Any]] = []
        after = 0 if job else max(0, self._json("GET", "/events/page", query={"limit": 1})["last"] - most)
        while True:
            page = self._json("GET", "/events/page", query={"after": after, "limit": 500, "job": job})["events"]
            found += page
            if len(page) < 500:
                return found[-most:]
            after = page[-1]["seq"]

    def events(self, after: int = 0, job: str = "") -> Iterator[dict[str, Any]]:
        """Every event after a sequence number, for ever; survives a server that goes and comes back."""
        while True:
            page = self._json("GET", "/events/page", query={"after": after, "limit": 500, "job": job})
            for event in page["events"]:
                after = event["seq"]
                yield event
            if page["events"]:
                continue
            try:
                for event in self._live(after, job):
                    after = event["seq"]
                    yield event
            except Unavailable as broken:
                self.link.on_trouble(broken.message)

    def _live(self, after: int, job: str) -> Iterator[dict[str, Any]]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        data = b""
        for line in self.link.stream("/events", {"after": after, "job": job}, headers):
            if line.startswith(b"data:"):
                data += line[5:].strip()
            elif not line and data:
                yield json.loads(data)
                data = b""

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes, with what each has, and what of it is free."""
        return list(self._json("GET", "/nodes")["nodes"])

    def server(self) -> dict[str, Any]:
        """What the server says of itself: its version, engines, and who leads."""
        return self._dict("GET", "/server")

    def close(self) -> None:
        """Close the connection; the next call would open another."""
        self.link.close()

    def _json(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        wait_s: float = 0.0,
    ) -> Any:
        return self.link.call(method, path, body, query, wait_s=wait_s).json()

    def _dict(self, method: str, path: str) -> dict[str, Any]:
        return dict(self._json(method, path))


def submit(
    job: Described, *args: str | PathLike[str], key: str | None = None, force: bool = False, **wishes: Any
) -> JobHandle:
    """Submit a job to the usual server; `Client.submit` says what may be given.

    `headway.submit("train.py", "--lr", "0.1", gpus=1)`, `headway.submit(["make", "all"])`,
    `headway.submit({"command": ["python", "train.py"], "resources": {"gpus": 1}})`
    """
    return Client().submit(job, *args, key=key, force=force, **wishes)


def _words_and_wishes(job: object, args: Sequence[str | PathLike[str]]) -> tuple[list[str], dict[str, Any]]:
    """The words of a command, or none and the description that has them."""
    if isinstance(job, Mapping):
        if args:
            raise TypeError(f"submit: {args[0]!r:.80} after a description: its arguments go into its command")
        return [], dict(job)
    if callable(job):
        raise TypeError(f"submit: {job!r:.80} is a function; headway.Executor().submit(function, …) calls one as a job")
    if isinstance(job, bytes) or not isinstance(job, str | PathLike | Sequence):
        raise TypeError(
            f"submit: {job!r:.80} is neither a script, nor a command as a list, nor a description as a dict"
        )
    if isinstance(job, str) and not args and len(job.split()) > 1 and not os.path.exists(job):
        words = ", ".join(f'"{word}"' for word in job.split())
        raise BadInput(f'"{job[:80]}" is several words', f"give each by itself: submit({words[:200]})")
    first = [job] if isinstance(job, str | PathLike) else job
    return [os.fspath(word) for word in (*first, *args)], {}


def warn_of(notes: Iterable[str]) -> None:
    """Warn where the SDK was called: in the nearest code outside of it."""
    for note in notes:
        import sys
        import warnings

        depth, frame = 1, sys._getframe()
        while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("headway."):
            depth, frame = depth + 1, frame.f_back
        warnings.warn(note.removeprefix("warning: ").removeprefix("headway: "), stacklevel=depth)


def _times(words: str) -> list[tuple[int, float]]:
    pairs = (word.partition(":") for word in words.split())
    return [(int(end), float(at)) for end, _, at in pairs]


def new_key() -> str:
    return os.urandom(16).hex()


def _word(ref: str) -> str:
    from urllib.parse import quote

    # An empty or dotted reference would be another address.
    return quote(ref, safe="") if ref.strip(".") else quote(ref or " ", safe="").replace(".", "%2E")
