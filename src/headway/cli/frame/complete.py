"""What the shell is offered after Tab: one table by flag and by noun, which holds for every command that has them.

Asked only of a server that runs, once, without patience; whatever goes wrong, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

UNFINISHED = "queued,starting,running,stopping"
ENDED = "succeeded,failed,cancelled"
# Which jobs a verb is for; any other is offered all.
FOR_JOBS = {
    "stop": UNFINISHED,
    "preempt": "running",
    "wait": UNFINISHED,
    "exec": "running",
    "ssh": "running",
    "tunnel": "running",
    "hold": "queued",
    "release": "queued",
    "set": "queued",
    "retry": f"queued,{ENDED}",
    "rm": ENDED,
}
Offer = Iterable[CompletionItem]


def jobs(client: Any, verb: str) -> Offer:
    """Ids and names of the jobs that this verb is for."""
    states = FOR_JOBS.get(verb)
    found = client.jobs(limit=100, **({"state": states} if states else {}))
    yield from (CompletionItem(job["id"], help=f"{job['name']} {job['state']}") for job in found)
    yield from (CompletionItem(name) for name in dict.fromkeys(job["name"] for job in found))


def states(client: Any, verb: str) -> Offer:
    return _items([*UNFINISHED.split(","), *ENDED.split(",")])


def tags(client: Any, verb: str) -> Offer:
    found = client.jobs(limit=200)
    pairs = (f"{key}={value}" for job in found for key, value in (job.get("tags") or {}).items())
    return _items(dict.fromkeys(pairs))


def settings(client: Any, verb: str) -> Offer:
    from dataclasses import fields

    from headway.settings import Settings, says

    suffix = "=" if verb == "set" else ""
    return [CompletionItem(each.name + suffix, help=says(each.name)) for each in fields(Settings)]


def contexts(client: Any, verb: str) -> Offer:
    from headway.settings import LOCAL, read_contexts

    return _items([LOCAL, *read_contexts(client.home).known])


def _named(ask: Callable[[Any], Iterable[Any]], key: str = "name") -> Callable[[Any, str], Offer]:
    return lambda client, verb: _items(each if isinstance(each, str) else each[key] for each in ask(client))


queues = _named(lambda client: client.house.queues())
pools = _named(lambda client: client.house.pools())
nodes = _named(lambda client: client.nodes(), "id")
licences = _named(lambda client: client.house.licences())
users = _named(lambda client: client.accounts.users())
projects = _named(lambda client: [*client.accounts.projects(), {"name": "default"}])
tokens = _named(lambda client: client.accounts.tokens(), "prefix")
secrets = _named(lambda client: client.secrets.list())
schedules = _named(lambda client: client.schedules.list())
FLAGS: dict[str, Callable[[Any, str], Offer]] = {
    "--state": states,
    "--tag": tags,
    "--queue": queues,
    "--pool": pools,
    "--project": projects,
    "--user": users,
    "--actor": users,
    "--licence": licences,
    "--after": jobs,
    "--after-each": jobs,
    "--job": jobs,
}
NOUNS: dict[str, Callable[[Any, str], Offer]] = {
    "queue": queues,
    "pool": pools,
    "node": nodes,
    "licence": licences,
    "user": users,
    "project": projects,
    "token": tokens,
    "secret": secrets,
    "schedule": schedules,
    "config": settings,
    "context": contexts,
}
NEEDS_NO_SERVER = (states, settings, contexts)
FILES = frozenset({"--file", "--env-file", "--input", "--volume", "--ca-file"})
DIRECTORIES = frozenset({"--workdir", "--directory", "--outputs", "--checkpoint-dir"})
FILE_WORDS = frozenset({"words", "path", "paths", "file", "files", "source", "destination", "directory"})
JOB_WORDS = frozenset({"job", "jobs", "which", "one", "other", "ref", "refs"})


def attach(command: click.Command, verb: str, noun: str) -> click.Command:
    """The command with something to offer for each of its flags and words. Only called when the shell asks."""
    for param in command.params:
        offer = _offer(param, noun)
        if offer is not None:
            param.shell_complete = _asking(offer, verb)  # type: ignore[assignment,method-assign]
    return command


def _offer(param: click.Parameter, noun: str) -> Callable[[Any, str], Offer] | None:
    if isinstance(param, click.Option):
        return next((FLAGS[flag] for flag in param.opts if flag in FLAGS), _paths(param.opts))
    name = str(param.name)
    if noun in NOUNS and name in ("name", noun, "prefix", "words"):
        return NOUNS[noun]
    if name in JOB_WORDS:
        return jobs
    return _files if name in FILE_WORDS else None


def _paths(flags: Iterable[str]) -> Callable[[Any, str], Offer] | None:
    if FILES & set(flags):
        return _files
    return _directories if DIRECTORIES & set(flags) else None


def _files(client: Any, verb: str) -> Offer:
    return [CompletionItem("", type="file")]


def _directories(client: Any, verb: str) -> Offer:
    return [CompletionItem("", type="dir")]


def _asking(offer: Callable[[Any, str], Offer], verb: str) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if offer in (_files, _directories):
            return [CompletionItem(incomplete, type=item.type) for item in offer(None, verb)]
        client = None if offer in NEEDS_NO_SERVER else _running()
        if client is None and offer not in NEEDS_NO_SERVER:
            return []
        before, comma, last = incomplete.rpartition(",") if offer is states else ("", "", incomplete)
        try:
            found = list(offer(client, verb))
        except Exception:  # The shell's line is no place for an error.
            return []
        taken = [item for item in found if item.value.startswith(last)]
        return [CompletionItem(before + comma + item.value, help=item.help) for item in taken]

    return complete


def _running() -> Any:
    """A client of a server that is there already."""
    from headway.client.connection.embedded import read_running
    from headway.client.sdk import Client
    from headway.core.errors import HeadwayError

    try:
        client = Client(patience_s=0.0)
    except HeadwayError:
        return None
    usable = client.resolved.settings.server_url or read_running(client.home) is not None
    return client if usable else None


def _items(names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(str(name)) for name in names]
