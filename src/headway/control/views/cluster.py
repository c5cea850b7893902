"""What people are shown of queues and pools. Reads only; called on the control thread, which owns the book."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headway.control.views.jobs import show_node
from headway.control.views.leader_port import LeaderMemory
from headway.control.views.servers import is_there
from headway.core.spec.pool import show_pool
from headway.core.spec.queue import show_queue
from headway.store.protocol import Glance, ServerSeen


def queues(memory: LeaderMemory) -> list[dict[str, Any]]:
    book = memory.book
    held = Counter((job.spec.queue, True) for job in book.active.values())
    held.update((job.spec.queue, False) for job in (*book.view.backing_off.values(), *book.view.blocked.values()))
    for lane in book.view.lanes.values():
        held[lane.name.queue, False] += len(lane)  # Those who wait for room are many, and counted already.
    known = book.house.all_queues()
    names = {queue.name for queue in known}
    strays = sorted({name for name, _ in held} - names)  # Of jobs whose queue nobody ever set.
    rules = [(queue.name, show_queue(queue)) for queue in known] + [(name, {}) for name in strays]
    return [
        {"name": name, "rules": words, "queued": held[name, False], "active": held[name, True]} for name, words in rules
    ]


def nodes(memory: LeaderMemory, mono: float) -> list[Mapping[str, Any]]:
    book, shown = memory.book, []
    for node in book.nodes.values():
        session = memory.session(node.id, mono)
        tasks = len(book.on_node.get(node.id, {}))
        shown.append(show_node(node, book.view.rooms.get(node.id), tasks, mono - session.heard_at, session.silent))
    return shown


def pools(memory: LeaderMemory) -> list[dict[str, Any]]:
    book, shown = memory.book, []
    for name in sorted(book.house.pools):
        nodes = [node for node in book.nodes.values() if node.pool == name]
        rooms = [room for node in nodes if (room := book.view.rooms.get(node.id)) is not None]
        free = [room for room in rooms if room.open]
        shown.append(
            {
                "name": name,
                "rules": show_pool(book.house.pools[name]),
                "nodes": len(nodes),
                "open": len(free),
                "tasks": sum(len(book.on_node.get(node.id, {})) for node in nodes),
                "free": {
                    "cpus": sum(room.cpus for room in free),
                    "memory_bytes": sum(room.memory_bytes for room in free),
                    "gpus": sum(len(room.gpus) for room in free),
                },
            }
        )
    return shown


def show_server(server: ServerSeen, glance: Glance) -> dict[str, Any]:
    """One of the servers on this store: whether it is there, and whether it leads."""
    lead = glance.lead
    return {
        **asdict(server),
        "leads": lead is not None and lead.server == server.name and lead.until > glance.now,
        "there": is_there(server, glance.now),
        "silent_s": max(0.0, glance.now - server.seen_at),
    }
