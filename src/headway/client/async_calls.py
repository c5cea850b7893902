"""Functions as jobs for asyncio: AsyncExecutor, and what `function.remote.aio(…)` does.

Packing, submitting and reading results is calls.py's, on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from headway.client.async_sdk import AsyncClient, AsyncJobHandle
from headway.client.calls import ENDS, Executor, FunctionCall, late

Value = TypeVar("Value")


class AsyncFunctionCall(AsyncJobHandle, Generic[Value]):
    """A job that is a call: what it returned can be awaited."""

    async def result(self, timeout_s: float | None = None) -> Value:
        """Wait for what the call returned. What it raised is raised here, with the trace of the job as its cause.

        CallFailed tells of an exception that cannot be unpickled here, and of a job that ended without a result;
        TimeoutError says that the time is up.
        """
        if await self.wait(timeout_s) not in ENDS:
            raise late(self.id, timeout_s)
        value: Value = await self._do(lambda it: FunctionCall[Value](it.client, it.seen).result(0.0))
        return value

    async def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """What the call raised, or None."""
        if await self.wait(timeout_s) not in ENDS:
            raise late(self.id, timeout_s)
        return await self._do(lambda it: FunctionCall[Value](it.client, it.seen).exception(0.0))

    async def done(self) -> bool:
        """Whether its job has ended."""
        return await self.wait(0.0) in ENDS


class AsyncExecutor:
    """Submits calls as jobs; the wishes (cpus, gpus, retries, timeout, …) hold for all of them."""

    def __init__(self, client: AsyncClient | None = None, **wishes: Any) -> None:
        self.client = client or AsyncClient()
        self.wishes = wishes

    async def submit(self, function: Callable[..., Value], /, *args: Any, **kwargs: Any) -> AsyncFunctionCall[Value]:
        """Call the function in a job of its own."""
        made = await self.client.call(lambda it: Executor(it, **self.wishes).submit(function, *args, **kwargs))
        return AsyncFunctionCall(self.client, made.seen)

    async def map_array(
        self, function: Callable[..., Value], /, *columns: Iterable[Any]
    ) -> list[AsyncFunctionCall[Value]]:
        """One job per element, as `map` would call it; all are submitted in one request, all or none."""
        made = await self.client.call(lambda it: Executor(it, **self.wishes).map_array(function, *columns))
        return [AsyncFunctionCall(self.client, each.seen) for each in made]
