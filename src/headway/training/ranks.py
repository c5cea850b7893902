"""The ranks of one training, as torch.distributed knows them: what one has heard all must know, or they wait for ever.

Outside a process group there is one rank, and nothing here waits for anybody.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def rank() -> int:
    group = _group()
    return int(group.get_rank()) if group else 0


def count() -> int:
    group = _group()
    return int(group.get_world_size()) if group else 1


def first_of_node() -> bool:
    """Whether this rank does for its node what is done once: all ranks of a node have one checkpoint directory."""
    return int(os.environ.get("LOCAL_RANK") or 0) == 0


def any_of(heard: bool) -> bool:
    """Whether any rank has heard it: all must leave the loop after the same step."""
    group = _group()
    if group is None:
        return heard
    import torch

    said = torch.tensor([int(heard)], device=_device(group))
    group.all_reduce(said, op=group.ReduceOp.MAX)
    return bool(said.item())


def gathered(mine: Any) -> list[Any]:
    """What each rank has, in their order, on every rank. For little things: all of it goes to everybody."""
    group = _group()
    if group is None:
        return [mine]
    everyone: list[Any] = [None] * count()
    group.all_gather_object(everyone, mine)
    return everyone


def meet() -> None:
    """Go on when all ranks are here: the end of one that leaves early may be taken for a failure."""
    group = _group()
    if group is not None:
        group.barrier()


def _group() -> Any:
    """torch.distributed, where it connects several ranks; a script that never loaded torch has one."""
    torch = sys.modules.get("torch")
    group = getattr(torch, "distributed", None)
    if group is None or not group.is_available() or not group.is_initialized() or group.get_world_size() == 1:
        return None
    return group


def _device(group: Any) -> str:
    return "cuda" if "nccl" in group.get_backend() else "cpu"
