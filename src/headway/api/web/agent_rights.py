"""What the agent of a node may say and touch: what concerns that node, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from headway.api.content.transfers import sha256_of
from headway.api.web.services import Services
from headway.core.access.actor import Actor
from headway.core.errors import NotAllowed
from headway.core.model import Job, JobId
from headway.storage.protocol import check_key
from headway_wire.sync import OutputRange

READ_EVERY_S = 2.0


class Reach:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._unfinished: list[Job] = []
        self._read_at = float("-inf")

    def check_sync(self, actor: Actor, node: str, logs: Iterable[OutputRange] = ()) -> None:
        """A call is made for one's own node, and its output lies in that node's own folder."""
        if actor.kind != "agent":
            return
        if node != actor.node:
            raise NotAllowed(f'the token of "{actor.node}" does not speak for "{node[:80]}"')
        for piece in logs:
            if not piece.key.startswith(f"logs/{node}/"):
                raise NotAllowed(f'{node}: output is kept below "logs/{node}/" only')

    def allowed(self, method: str, actor: Actor, agent: Actor, keys: list[str]) -> list[str]:
        """Those of the keys for which an address may be given to the agent that `actor` speaks for."""
        found = []
        for key in keys:
            try:
                self.check_write(agent, check_key(key)) if method == "PUT" else self.check_read(actor, check_key(key))
            except NotAllowed:
                continue
            found.append(key)
        return found

    def check_write(self, actor: Actor, key: str) -> None:
        if not (self._own_log(actor, key) or self._of_living(actor, key)):
            raise NotAllowed(f'an agent may not write "{key[:80]}"', "only logs, and what belongs to a living attempt")

    def check_upload(self, key: str, given_at: float) -> None:
        """An address that was given for an upload is no good once its attempt has ended, or the object is committed.

        Whoever has kept it could replace what a job has left. A living attempt may: it is given a new address.
        """
        top, job, number, folder = [*key.split("/"), "", "", ""][:4]
        if top != "jobs":
            return
        if not self._lives(job, number):
            raise NotAllowed(f'the address of "{key[:80]}" is no longer good', "its attempt has ended")
        store, committed = self._services.store, False
        if folder == "output":
            kept = [each for each in store.artifacts(job, int(number)) if key in each.keys]
            committed = any(each.at > given_at for each in kept)
        elif folder == "checkpoints":  # Each manifest has a name of its own: none is ever written anew.
            committed = any(each.key == key for each in store.checkpoints(job))
        if committed:
            hint = "it is committed; ask for a new one: /agent/urls"
            raise NotAllowed(f'the address of "{key[:80]}" is no longer good', hint)

    def check_replaced(self, key: str, sha256: str, size: int) -> None:
        """A part of a checkpoint may be sent again, but never be replaced: a manifest may name it by now.

        Chunks of an artifact are: they are joined, and gone.
        """
        folder, name = [*key.split("/"), "", "", "", ""][3:5]
        if folder != "parts" or name.startswith("output-"):
            return
        there = self._services.storage.size(key)
        if there is not None and (there != size or sha256_of(self._services.storage, key) != sha256):
            raise NotAllowed(f'"{key[:80]}" is there already, with another content', "a part is never replaced")

    def _lives(self, job: JobId, attempt: str) -> bool:
        if self._services.leading:
            held = self._services.control.snapshot.active(job)
        else:
            held = next((each for each in self._services.store.jobs([job]) if each.alive), None)
        return held is not None and attempt == str(held.number)

    def check_read(self, actor: Actor, key: str) -> None:
        if actor.kind != "agent":
            allowed = key.startswith(("jobs/", "logs/", "bundles/"))
        else:
            allowed = self._own_log(actor, key) or self._needed_by(actor.node, key)
        if not allowed:
            raise NotAllowed(f'an agent may not read "{key[:80]}"', "only what a task on its node needs")

    def _own_log(self, actor: Actor, key: str) -> bool:
        return key.startswith(f"logs/{actor.node}/" if actor.kind == "agent" else "logs/")

    def _of_living(self, actor: Actor, key: str) -> bool:
        """Whether a key lies in the folder of an attempt that goes on, there: the fence for objects."""
        top, job, attempt, *rest = [*key.split("/"), "", "", ""]
        held = self._services.control.snapshot.active(job)
        if top != "jobs" or not rest[0] or held is None or attempt != str(held.number):
            return False
        return any(actor.kind != "agent" or task.node == actor.node for task in held.alive)

    def _needed_by(self, node: str, key: str) -> bool:
        """Whether a task on this node may ask for an object: of its job, of the job it began from, of its bundle."""
        here = self._here(node)
        top, name, *_ = [*key.split("/"), ""]
        if top == "jobs":
            store = self._services.store
            return name in here or any(
                use.kind == "origin" and use.name == name for job in here for use in store.uses(job)
            )
        if top == "bundles":
            digests = {job.spec.progress.bundle for job in here.values()} - {""}
            return (name == "files" and bool(digests)) or name.removesuffix(".json") in digests
        return False

    def _here(self, node: str) -> dict[JobId, Job]:
        """The jobs with a task that holds a place on this node."""
        if self._services.leading:
            return self._services.control.snapshot.jobs_on(node)
        # A server that does not lead has no book; it looks into the store, now and then.
        at = self._services.mono()
        if at - self._read_at > READ_EVERY_S:
            self._unfinished, self._read_at = self._services.store.unfinished(), at
        return {job.id: job for job in self._unfinished if any(task.node == node for task in job.alive)}
