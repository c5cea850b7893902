"""Functions as jobs: `Executor.submit`, `map_array`, `as_completed`, and the decorator `@headway.job`.

A call is pickled by value (cloudpickle, the extra `pickle`), travels as a bundle and comes back as an artifact. The
other half, which runs in the job, is headway.training.calling.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from headway.client.artifacts import choose, fetch
from headway.client.code import bundle, passed_env
from headway.client.code.prepared_job import take_packing
from headway.client.code.script import PASSED_ON
from headway.client.job_handle import JobHandle
from headway.client.sdk import Client, warn_of
from headway.core.errors import BadInput, HeadwayError, NotFound
from headway.training import calling

if TYPE_CHECKING:
    from headway.client.async_calls import AsyncFunctionCall

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")
Later = TypeVar("Later")
SomeJob = TypeVar("SomeJob", bound=JobHandle)

RUNNER = "run_call.py"
OUTPUTS = ["output"]
LOOK_EVERY_S = 0.5
ENDS = ("succeeded", "failed", "cancelled")
WORDS = {"timeout": "max_duration", "mem": "memory"}


class CallFailed(HeadwayError):
    """A call raised what cannot be brought here, or its job ended without a result.

    `job` is the job's id, `raised` the type of what was raised (empty where nothing was), `trace` the trace of the job.
    """

    kind = "call-failed"

    def __init__(self, message: str, hint: str = "", *, job: str = "", raised: str = "", trace: str = "") -> None:
        super().__init__(message, hint)
        self.job = job
        self.raised = raised
        self.trace = trace


class FunctionCall(JobHandle, Generic[Value]):
    """A job that is a call: what it returned can be asked for."""

    def result(self, timeout_s: float | None = None) -> Value:
        """Wait for what the call returned. What it raised is raised here, with the trace of the job as its cause.

        CallFailed tells of an exception that cannot be unpickled here, and of a job that ended without a result;
        TimeoutError says that the time is up.
        """
        told, error = self._told(timeout_s)
        if error is not None:
            raise error
        value: Value = told
        return value

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """What the call raised, or None."""
        try:
            return self._told(timeout_s)[1]
        except CallFailed as failed:
            return failed

    def done(self) -> bool:
        """Whether its job has ended."""
        return self.wait(0.0) in ENDS

    def _told(self, timeout_s: float | None) -> tuple[Any, BaseException | None]:
        """What was returned, or what was raised."""
        if self.wait(timeout_s) not in ENDS:
            raise late(self.id, timeout_s)
        try:
            (found,) = [
                each for each in choose(self.artifacts(), ()) if os.path.basename(each["path"]) == calling.RESULT
            ]
        except (ValueError, NotFound):
            raise CallFailed(f"job {self.id} left no result; it {self.sentence}", job=self.id) from None
        with tempfile.TemporaryDirectory() as folder:
            path = fetch(self.client, self.id, found, folder, to=os.path.join(folder, calling.RESULT))
            return read_result(path, self.id)


def late(job: str, timeout_s: float | None) -> TimeoutError:
    return TimeoutError(f"job {job} has not ended within {timeout_s or 0:g} s")


def read_result(path: str, job: str) -> tuple[Any, BaseException | None]:
    """What the file of a result says was returned, or raised; an exception that cannot be loaded is told in words."""
    _pickler()
    said = calling.read_head(path).get("raised") or {}
    trouble: Exception | None = None
    told: dict[str, Any] = {}
    try:
        told = calling.load(path)
    except Exception as error:  # Whatever the constructors of users' classes may raise.
        trouble = error
    if not said and trouble is not None:
        raise CallFailed(
            f"what job {job} returned cannot be unpickled here: {_in_short(trouble)}",
            "are the same packages installed here as there?",
            job=job,
        ) from trouble
    if not said:
        return told["value"], None
    trace = str(said.get("trace") or "")
    there = CallFailed(f"in job {job}:\n{trace}", job=job, raised=str(said["type"]), trace=trace)
    raised = told.get("error")
    if isinstance(raised, BaseException):
        raised.__cause__ = there
        return None, raised
    why = f"unpickled here: {_in_short(trouble)}" if trouble else "pickled there"
    failed = CallFailed(
        f"{said['type']}: {said['message']} (in job {job}; the exception itself cannot be {why})",
        job=job,
        raised=str(said["type"]),
        trace=trace,
    )
    failed.__cause__ = there
    return None, failed


def _in_short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class Executor:
    """Submits calls as jobs; the wishes (cpus, gpus, retries, timeout, …) hold for all of them."""

    def __init__(self, client: Client | None = None, **wishes: Any) -> None:
        self._client = client
        self.wishes = {WORDS.get(name, name): value for name, value in wishes.items()}

    @property
    def client(self) -> Client:
        """The client that was given, or one for the usual server."""
        if self._client is None:
            self._client = Client()
        return self._client

    def submit(self, function: Callable[..., Value], /, *args: Any, **kwargs: Any) -> FunctionCall[Value]:
        """Call the function in a job of its own."""
        _check_callable(function, "submit", "submit(train, 0.1), not submit(train(0.1))")
        (made,) = self._submit(function, [(args, kwargs)])
        return made

    def map_array(self, function: Callable[..., Value], /, *columns: Iterable[Any]) -> list[FunctionCall[Value]]:
        """One job per element, as `map` would call it; all are submitted in one request, all or none."""
        _check_callable(function, "map_array", "map_array(train, [0.1, 0.2])")
        _check_columns(columns)
        rows: list[tuple[tuple[Any, ...], dict[str, Any]]] = [(row, {}) for row in zip(*columns, strict=False)]
        return self._submit(function, rows) if rows else []

    def _submit(
        self, function: Callable[..., Value], calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
    ) -> list[FunctionCall[Value]]:
        wishes = dict(self.wishes)
        packing = take_packing(wishes)
        if packing.bundle is not None or wishes.get("bundle"):
            raise BadInput("bundle: a call travels as a bundle of its own", "leave it out")
        if packing.environment is not None:
            raise BadInput("environment: calls run with an interpreter of the same version", "give python= instead")
        wishes["env"] = self._env(wishes, packing.env_all)
        with tempfile.TemporaryDirectory() as folder:
            made = _pack(Path(folder), function, calls)
            self.client.send_bundle(made)
        raws = [self._described(function, made.digest, number, wishes) for number in range(len(calls))]
        ids = self.client.submit_many(raws)
        return [FunctionCall(self.client, {"id": each, "state": "queued", "name": raws[0]["name"]}) for each in ids]

    def _env(self, wishes: dict[str, Any], everything: bool) -> dict[str, str]:
        """The variables of the calls: as those of any job, and on the caller's own machine its places for modules."""
        env, chosen = self.client.env, self.client.resolved.settings
        shared = bool(chosen.server_url)
        own = {} if shared else {name: env[name] for name in PASSED_ON if env.get(name)} | _search_path()
        given = {**own, **(wishes.get("env") or {})}
        taken = frozenset([*PASSED_ON, *given, *(wishes.get("secrets") or {})])
        found = passed_env.passed(env, chosen.pass_env, taken, everything=everything, shared=shared)
        warn_of(passed_env.notes(found))
        return {**found.env, **given}

    def _described(self, function: Any, digest: str, number: int, wishes: dict[str, Any]) -> dict[str, Any]:
        given = dict(wishes)
        shared = bool(self.client.resolved.settings.server_url)
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        python = given.pop("python", None) or (version if shared else sys.executable)
        resources = {key: given.pop(key) for key in ("cpus", "memory", "gpus") if given.get(key) is not None}
        return {
            "name": _name(function),
            **given,
            "command": [python, RUNNER, f"calls/{number}.pkl"],
            "bundle": digest,
            "outputs": [*(given.get("outputs") or []), *OUTPUTS],
            **({"resources": {**(given.get("resources") or {}), **resources}} if resources else {}),
        }


def _check_callable(function: object, where: str, example: str) -> None:
    if not callable(function):
        raise TypeError(
            f"{where}: {function!r:.80} is not a function; give it first, and its arguments after it: {example}"
        )


def _check_columns(columns: Sequence[Any]) -> None:
    """Values that would be left out without a word, or are none at all. What has no end (`repeat`) fits any length."""
    if not columns:
        raise TypeError("map_array: no values are given: map_array(train, [0.1, 0.2])")
    for column in columns:
        if not isinstance(column, Iterable):
            raise TypeError(f"map_array: {column!r:.80} is not a list of values: map_array(train, [0.1, 0.2])")
    lengths = [len(column) for column in columns if isinstance(column, Sized)]
    if len(set(lengths)) > 1:
        raise ValueError(f"map_array: the lists of values have different lengths: {', '.join(map(str, lengths))}")


def _pack(folder: Path, function: Any, calls: Sequence[Any]) -> bundle.ReadBundle:
    """A bundle with the calls, the runner, and the pickler that the runner needs."""
    pickler = _pickler()
    _by_value(pickler, function)
    (folder / "calls").mkdir()
    for number, (args, kwargs) in enumerate(calls):
        content = pickler.dumps((function, args, kwargs))
        (folder / f"calls/{number}.pkl").write_bytes(calling.head() + content)
    (folder / RUNNER).write_bytes(Path(calling.__file__).read_bytes())
    (folder / "cloudpickle").mkdir()
    for source in Path(pickler.__file__).parent.glob("*.py"):
        (folder / "cloudpickle" / source.name).write_bytes(source.read_bytes())
    files = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        name = path.relative_to(folder).as_posix()
        files.append({"path": name, "sha256": digest, "size": len(content), "mode": 0o644})
    return bundle.made_of(files, str(folder))


def _pickler() -> Any:
    try:
        import cloudpickle
    except ImportError:
        raise BadInput("calls need cloudpickle", "pip install headway[pickle]") from None
    return cloudpickle


def _by_value(pickler: Any, function: Any) -> None:
    """Pickle the function's own module by value, unless it is installed: the node does not have the file."""
    inner = getattr(function, "__wrapped__", function)
    module = sys.modules.get(getattr(inner, "__module__", None) or type(inner).__module__)
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__ == "__main__":
        return
    paths = sysconfig.get_paths()
    installed = tuple(os.path.realpath(paths[name]) + os.sep for name in ("stdlib", "purelib", "platlib"))
    if not os.path.realpath(file).startswith(installed):
        pickler.register_pickle_by_value(module)


def _search_path() -> dict[str, str]:
    """The caller's own places for modules, for what is pickled by name."""
    known = os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)
    own = [os.path.abspath(each) for each in sys.path if each != "" or os.getcwd()]
    found = [each for each in own if os.path.isdir(each) and not os.path.realpath(each).startswith(known)]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(found))} if found else {}


def _name(function: Any) -> str:
    import re

    told = getattr(function, "__name__", None) or type(function).__name__
    return re.sub(r"[^A-Za-z0-9_-]+", "-", told).strip("-_")[:40] or "call"


def as_completed(jobs: Iterable[SomeJob], timeout_s: float | None = None) -> Iterator[SomeJob]:
    """Yield jobs as they end; TimeoutError when the time is up and some have not."""
    give_up_at = None if timeout_s is None else time.monotonic() + timeout_s
    left = list(dict.fromkeys(jobs))
    while left:
        for job in list(left):
            # The first one left is waited for; the rest are only looked at.
            pause_s = LOOK_EVERY_S if job is left[0] else 0.0
            if job.wait(pause_s) in ENDS:
                left.remove(job)
                yield job
        if left and give_up_at is not None and time.monotonic() >= give_up_at:
            raise TimeoutError(f"{len(left)} of the jobs have not ended within {timeout_s:g} s")


class TwoWays(Generic[Arguments, Value, Later]):
    """Something to call, and its twin for asyncio: `fit.remote(4)`, and `await fit.remote.aio(4)`."""

    def __init__(self, call: Callable[Arguments, Value], aio: Callable[Arguments, Later]) -> None:
        self._call = call
        self.aio = aio

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        return self._call(*args, **kwargs)


class RemoteFunction(Generic[Arguments, Value]):
    """A function that can be called as a job: `remote`, `spawn` and `map`, each with `.aio`. As it is, it runs here."""

    def __init__(self, function: Callable[Arguments, Value], wishes: dict[str, Any]) -> None:
        _check_callable(function, "job", "@headway.job(gpus=1) above a function")
        functools.update_wrapper(self, function)
        self._function = function
        self._wishes = wishes

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        return self._function(*args, **kwargs)

    def local(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        """Call it here and now."""
        return self._function(*args, **kwargs)

    @property
    def spawn(self) -> TwoWays[Arguments, FunctionCall[Value], Awaitable[AsyncFunctionCall[Value]]]:
        """Submit the call and return its job: `fit.spawn(4).result()`, `await (await fit.spawn.aio(4)).result()`."""

        def now(*args: Arguments.args, **kwargs: Arguments.kwargs) -> FunctionCall[Value]:
            return Executor(**self._wishes).submit(self._function, *args, **kwargs)

        async def aio(*args: Arguments.args, **kwargs: Arguments.kwargs) -> AsyncFunctionCall[Value]:
            from headway.client.async_calls import AsyncExecutor

            return await AsyncExecutor(**self._wishes).submit(self._function, *args, **kwargs)

        return TwoWays(now, aio)

    @property
    def remote(self) -> TwoWays[Arguments, Value, Awaitable[Value]]:
        """Submit the call and wait for what it returns: `fit.remote(4)`, `await fit.remote.aio(4)`."""

        def now(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
            return self.spawn(*args, **kwargs).result()

        async def aio(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
            return await (await self.spawn.aio(*args, **kwargs)).result()

        return TwoWays(now, aio)

    @property
    def map(self) -> TwoWays[..., Iterator[Value], AsyncIterator[Value]]:
        """One job per element; yields what they return, in order. `async for value in fit.map.aio([2, 3])` likewise."""

        def now(*columns: Iterable[Any]) -> Iterator[Value]:
            for made in Executor(**self._wishes).map_array(self._function, *columns):
                yield made.result()

        async def aio(*columns: Iterable[Any]) -> AsyncIterator[Value]:
            from headway.client.async_calls import AsyncExecutor

            for made in await AsyncExecutor(**self._wishes).map_array(self._function, *columns):
                yield await made.result()

        return TwoWays(now, aio)


@overload
def job(function: Callable[Arguments, Value], /) -> RemoteFunction[Arguments, Value]: ...
@overload
def job(**wishes: Any) -> Callable[[Callable[Arguments, Value]], RemoteFunction[Arguments, Value]]: ...
def job(function: Any = None, /, **wishes: Any) -> Any:
    """Make a function callable as a job: `@headway.job(gpus=1, retries=3, timeout="6h")`, or `@headway.job` alone.

    Called as it is, it runs here; `remote`, `spawn` and `map` make jobs of it. The wishes are a job file's keys.
    """
    if function is not None:
        return RemoteFunction(function, wishes)
    return lambda found: RemoteFunction(found, wishes)
