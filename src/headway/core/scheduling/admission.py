"""What is refused at submission because it could never run here, told with the reason and a way out.

Whatever might come true (a node that joins) is not a reason to refuse, unless the operator has said how large the pools
and quotas are. In a queue that allows waiting, pools may still come, and only quotas and limits are reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headway.core.errors import BadInput
from headway.core.model import Node, Pool, Queue, Resources
from headway.core.records import replace
from headway.core.scheduling.fit import CPU_DUST, GPU_TYPE, Need, need_of, unsuited
from headway.core.scheduling.shares import Held, amounts_of, counters_of
from headway.core.spec.job import JobSpec
from headway.core.units import show_duration, show_size


def check(
    spec: JobSpec,
    queue: Queue,
    pools: Iterable[Pool],
    nodes: Iterable[Node] = (),
    licences: Mapping[str, int] | None = None,
    user: str = "",
) -> JobSpec:
    """The spec with the queue's default limit put in, or BadInput when it could never run here."""
    spec = _limited(spec, queue)
    pools, nodes = list(pools), list(nodes)
    if not queue.allow_waiting:
        _check_pools(spec, queue, pools)
    _check_quota(spec, queue, user)
    for name, count in spec.wishes.licences:
        there = (licences or {}).get(name, 0)
        if count > there:
            known = ", ".join(sorted(licences or {})) or "none"
            raise BadInput(f"licences.{name}: {count} wanted, there are {there}", f"known licences: {known}")
    if not queue.allow_waiting:
        _check_room(spec, queue, pools, nodes)
    return spec


def _limited(spec: JobSpec, queue: Queue) -> JobSpec:
    if spec.wall_s_max is None and queue.wall_s_default is not None:
        spec = replace(spec, wall_s_max=queue.wall_s_default)
    most = queue.wall_s_max
    if most is not None and (spec.wall_s_max is None or spec.wall_s_max > most):
        asked = "no limit" if spec.wall_s_max is None else show_duration(spec.wall_s_max)
        raise BadInput(
            f'max_duration: {asked}; queue "{queue.name}" takes jobs of {show_duration(most)} at most',
            f"use --max-duration {most:g}s or another queue",
        )
    return spec


def _check_pools(spec: JobSpec, queue: Queue, pools: list[Pool]) -> None:
    if queue.pools is not None and not queue.pools:
        raise BadInput(f'queue "{queue.name}" may use no pool, so nothing can run there', "use another queue")
    if not spec.pool:
        return
    if queue.pools is not None and spec.pool not in queue.pools:
        allowed = ", ".join(queue.pools)
        raise BadInput(f'queue "{queue.name}" may not use pool "{spec.pool}"', f"its pools: {allowed}")
    if pools and all(pool.name != spec.pool for pool in pools):
        known = ", ".join(sorted(pool.name for pool in pools))
        raise BadInput(f'no pool named "{spec.pool}"', f"known pools: {known}")


def _check_quota(spec: JobSpec, queue: Queue, user: str) -> None:
    counters = counters_of(queue.name, spec.project, user)
    short = Held().short(queue, counters, amounts_of(spec.nodes, spec.resources))
    if short is not None and short[1].never:
        found = short[1]
        wanted, most = _amount(found.wants, found.what), _amount(found.most, found.what)
        what = found.what[:-1] if found.wants == 1 and found.what != "memory" else found.what
        said = f"{wanted} {what} wanted, and the quota of {found.whose} is {most}"
        raise BadInput(said, "ask for less, or use another queue")


def _amount(value: float, what: str) -> str:
    return show_size(int(value)) if what == "memory" else f"{value:g}"


def _check_room(spec: JobSpec, queue: Queue, pools: list[Pool], nodes: list[Node]) -> None:
    """Refuse what no pool could hold. A pool whose shape nobody knows might hold anything."""
    need = need_of(spec, queue.pools)
    usable = [pool for pool in pools if need.pools is None or pool.name in need.pools]
    examples: list[tuple[Pool, Node]] = []
    for pool in usable:
        seen = [node for node in nodes if node.pool == pool.name]
        if pool.shape is None and not seen:
            return
        if pool.shape is not None:
            labels = {**pool.labels, **({GPU_TYPE: pool.gpu_type} if pool.gpu_type else {})}
            examples.append((pool, Node("", pool.name, pool.shape, zone=pool.zone, labels=labels)))
        examples += [(pool, node) for node in seen]
    if not usable:
        return
    fitting = {pool.name: pool for pool, node in examples if not unsuited(need, node)}
    if not fitting:
        raise BadInput(*_too_large(need, examples))
    most = sum(max(pool.nodes_max, _count(nodes, pool)) for pool in fitting.values())
    if spec.nodes > most:
        names = ", ".join(f'"{name}"' for name in fitting)
        raise BadInput(f"{spec.nodes} nodes wanted; pool {names} has {most} at most", f"use --nodes {most}")


def _count(nodes: list[Node], pool: Pool) -> int:
    return sum(node.pool == pool.name for node in nodes)


def _too_large(need: Need, examples: list[tuple[Pool, Node]]) -> tuple[str, str]:
    bare = need._replace(gpu_type="", labels=(), zone="")
    wished = [phrase for _, node in examples if not unsuited(bare, node) and (phrase := unsuited(need, node))]
    if wished:
        return f"every node that is large enough is {wished[0]}", "change --gpu-type, --label or --zone"
    pool, best = max(examples, key=lambda each: (each[1].granted.gpus, each[1].granted.cpus))
    granted = best.granted
    of = f'the largest node of pool "{pool.name}" has'
    if need.gpus > granted.gpus:
        hint = f"use --nodes {-(-need.nodes * need.gpus // granted.gpus)} --gpus {granted.gpus}" if granted.gpus else ""
        return f"{need.gpus} GPUs on one node; {of} {granted.gpus or 'none'}", hint
    return _other_amount(need, granted, of)


def _other_amount(need: Need, granted: Resources, of: str) -> tuple[str, str]:
    if need.cpus > granted.cpus + CPU_DUST:
        return f"{need.cpus:g} cpus on one node; {of} {granted.cpus:g}", f"use --cpus {granted.cpus:g}"
    wanted = show_size(need.memory_bytes)
    return f"{wanted} memory on one node; {of} {show_size(granted.memory_bytes)}", "ask for less memory"
