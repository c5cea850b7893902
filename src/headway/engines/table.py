"""The engines that there are. A new one is its own files and a line here; a pool that names none has the first."""

from __future__ import annotations

from headway.engines import local_kind
from headway.engines.kinds import EngineKind
from headway.engines.slurm import engine as slurm
from headway.engines.ssh import engine as ssh

KINDS: tuple[EngineKind, ...] = (local_kind.KIND, slurm.KIND, ssh.KIND)
