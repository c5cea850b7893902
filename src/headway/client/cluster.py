"""The house's rules through the SDK: queues, pools, licences, nodes; arrays and the outlook.

A thin cover over the API, as sdk.py is; reached as `Client().house`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from headway.client.connection.http import ServerLink
from headway.core.errors import NotFound

LOOK_EVERY_S = 0.5
UNFINISHED = ("queued", "starting", "running", "stopping")


class ClusterCalls:
    def __init__(self, link: ServerLink) -> None:
        self.link = link

    def queues(self) -> list[dict[str, Any]]:
        return list(self._get("/queues")["queues"])

    def set_queue(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Make a queue, or change the words that are given; None takes a word away."""
        return dict(self._ask("PATCH", f"/queues/{_word(name)}", dict(changes))["queue"])

    def drop_queue(self, name: str) -> None:
        self._ask("DELETE", f"/queues/{_word(name)}")

    def pools(self) -> list[dict[str, Any]]:
        return list(self._get("/pools")["pools"])

    def set_pool(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._ask("PATCH", f"/pools/{_word(name)}", dict(changes))["pool"])

    def drop_pool(self, name: str) -> dict[str, Any]:
        """Remove a pool: its jobs finish, then its nodes are released."""
        return dict(self._ask("DELETE", f"/pools/{_word(name)}")["pool"])

    def render_pool(self, name: str, nodes: int = 1) -> dict[str, Any]:
        """Exactly what an order of so many nodes would send to the pool's engine, without sending it."""
        return dict(self._get(f"/pools/{_word(name)}/render?nodes={nodes}"))

    def hosts(self) -> list[dict[str, Any]]:
        """How the hosts are that the server reaches by ssh; each is asked now."""
        return list(self._get("/hosts")["hosts"])

    def licences(self) -> dict[str, int]:
        return dict(self._get("/licences")["licences"])

    def set_licences(self, counts: Mapping[str, int | None]) -> dict[str, int]:
        return dict(self._ask("PATCH", "/licences", dict(counts))["licences"])

    def close_node(self, node: str, how: str, stop: bool = False) -> dict[str, Any]:
        """`cordon`, `drain` or `uncordon` a node; a drain may ask what runs there to save and start elsewhere."""
        return dict(self._ask("POST", f"/nodes/{_word(node)}/{how}", {"stop": stop})["node"])

    def release_node(self, node: str, force: bool = False) -> dict[str, Any]:
        """Give a node back; refused while a job is there, unless forced: then it starts elsewhere."""
        return dict(self._ask("POST", f"/nodes/{_word(node)}/release", {"force": force})["node"])

    def revoke_node(self, node: str) -> dict[str, Any]:
        """Let a node's token be good for nothing any more."""
        return dict(self._ask("POST", f"/nodes/{_word(node)}/revoke")["node"])

    # --- waiting jobs ---
    def change(self, ref: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change a job that waits: its priority, queue, limits, or whether it is held."""
        return dict(self._ask("PATCH", f"/jobs/{_word(ref)}", dict(changes))["job"])

    def array(self, array: str) -> dict[str, Any] | None:
        """All about an array, by id or name: how many of its jobs are in which state; None when there is none."""
        try:
            return dict(self._get(f"/arrays/{_word(array)}"))
        except NotFound:
            return None

    def array_counts(self, array: str) -> dict[str, Any] | None:
        """The same without what is only shown with one array: cheap, and asked again and again."""
        try:
            return dict(self._get(f"/arrays/{_word(array)}/counts"))
        except NotFound:
            return None

    def why_array(self, array: str) -> dict[str, Any]:
        return dict(self._get(f"/arrays/{_word(array)}/why"))

    def change_array(self, array: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._ask("PATCH", f"/arrays/{_word(array)}", dict(changes)))

    def stop_array(self, array: str, grace_s: float | None = None, drop_files: bool = False) -> dict[str, Any]:
        said = {"grace_s": grace_s, **({"drop_files": True} if drop_files else {})}
        return dict(self._ask("POST", f"/arrays/{_word(array)}/stop", said))

    def wait_array(self, array: str, timeout_s: float | None = None) -> tuple[dict[str, Any], bool]:
        """Wait until all jobs of an array have ended, or the time is up."""
        give_up_at = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            found = dict(self._get(f"/arrays/{_word(array)}/counts"))
            ended = not any(found["states"].get(state) for state in UNFINISHED)
            if ended or (give_up_at is not None and time.monotonic() >= give_up_at):
                return found, ended
            time.sleep(LOOK_EVERY_S)

    # --- the outlook ---
    def plan(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """When a job would start if it were submitted now."""
        return dict(self._ask("POST", "/plan", {"job": dict(raw)}))

    def outlook(self, limit: int = 100) -> dict[str, Any]:
        """When the first of those that wait will start."""
        return dict(self.link.call("GET", "/plan", query={"limit": limit}).json())

    def _get(self, path: str) -> Any:
        return self.link.call("GET", path).json()

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        return self.link.call(method, path, body).json()


def _word(name: str) -> str:
    return quote(name, safe="") if name.strip(".") else quote(name or " ", safe="").replace(".", "%2E")
