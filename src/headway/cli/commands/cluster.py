"""`headway queue`, `pool` and `licence`: the house's rules, listed and changed while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.options import connect, output_options, pair
from headway.cli.frame.output import Output
from headway.cli.screen import cluster as cluster_pages
from headway.core.errors import BadInput


@click.group()
def queue() -> None:
    """Queues: their priority, shares, quotas, limits and pools."""


@queue.command(name="ls")
@output_options
def queue_ls(output: Output) -> int:
    """List queues with what waits and runs in them."""
    return _list(output, "queues", connect(output).house.queues(), cluster_pages.queues)


@queue.command(name="set")
@click.argument("name")
@click.argument("words", metavar="KEY=VALUE...", nargs=-1)
@output_options
def queue_set(name: str, words: Sequence[str], output: Output) -> int:
    """Create or change a queue.

    \b
    headway queue set night priority=5 max_duration=8h pools=lab,cloud
    headway queue set night quota.gpus=8 user_quota.jobs=2 user_quotas.ada.gpus=4
    headway queue set night policy=            takes a word away
    """
    queue = connect(output).house.set_queue(name, read_words(words, QUEUE_TEXTS))
    return _done(output, name, queue, f"queue {name} is set")


@queue.command(name="rm")
@click.argument("name")
@output_options
def queue_rm(name: str, output: Output) -> int:
    """Remove a queue in which nothing waits or runs. The default one stays, without rules."""
    connect(output).house.drop_queue(name)
    said = "has no rules any more" if name == "default" else "is removed"
    return _done(output, name, {"queue": name}, f"queue {name} {said}")


@click.group()
def pool() -> None:
    """Pools: where nodes come from, how many, and what they have."""


@pool.command(name="ls")
@output_options
def pool_ls(output: Output) -> int:
    """List pools and what is free on their nodes."""
    found = connect(output).house.pools()
    if not found:
        output.say("no pool, so nothing can run; make one: headway pool set local engine=local nodes=1")
    return _list(output, "pools", found, cluster_pages.pools)


@pool.command(name="set")
@click.argument("name")
@click.argument("words", metavar="KEY=VALUE...", nargs=-1)
@output_options
def pool_set(name: str, words: Sequence[str], output: Output) -> int:
    """Create or change a pool.

    \b
    headway pool set lab engine=local nodes=4 cpus=2 memory=4G
    headway pool set lab engine=ssh hosts=gpu1,ada@gpu2:2222 options.call_home=tunnel
    headway pool set lab labels.rack=7 price=1.20 kind=spot
    headway pool set lab state=draining        nothing new is placed there
    """
    pool = connect(output).house.set_pool(name, read_words(words, POOL_TEXTS))
    return _done(output, name, pool, f"pool {name} is set")


@pool.command(name="render")
@click.argument("name")
@click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="How many nodes are ordered.")
@output_options
def pool_render(name: str, nodes: int, output: Output) -> int:
    """Print exactly what would be sent for an order of nodes, and send nothing. Tokens are left out."""
    found = connect(output).house.render_pool(name, nodes)
    output.show(found, lambda: cluster_pages.request(found), lambda: found["nodes"])
    return exits.OK


@pool.command(name="rm")
@click.argument("name")
@output_options
def pool_rm(name: str, output: Output) -> int:
    """Remove a pool: its jobs finish, then its nodes are released."""
    pool = connect(output).house.drop_pool(name)
    return _done(output, name, pool, f"pool {name} leaves: its jobs finish, then its nodes are given back")


@click.group()
def licence() -> None:
    """Licences: named countable things that jobs hold while they run."""


@licence.command(name="ls")
@output_options
def licence_ls(output: Output) -> int:
    """List licences and their counts."""
    found = connect(output).house.licences()
    rows = [(name, str(count)) for name, count in found.items()]
    output.show(found, lambda: output.table(("LICENCE", "COUNT"), rows), lambda: list(found))
    return exits.OK


@licence.command(name="set")
@click.argument("words", metavar="NAME=COUNT...", nargs=-1, required=True)
@output_options
def licence_set(words: Sequence[str], output: Output) -> int:
    """Set how many there are; NAME= removes one."""
    found = connect(output).house.set_licences(read_words(words, frozenset()))
    output.show(found, lambda: ", ".join(f"{name}: {count}" for name, count in found.items()), lambda: list(found))
    return exits.OK


def _list(output: Output, what: str, found: list[dict[str, Any]], page: Callable[..., str]) -> int:
    output.show({what: found}, lambda: page(output, found), lambda: [each["name"] for each in found])
    return exits.OK


def _done(output: Output, name: str, answer: dict[str, Any], said: str) -> int:
    output.show(answer, lambda: said, lambda: [name])
    return exits.OK


# Words whose value is text though it may look like a number.
QUEUE_TEXTS = frozenset({"policy", "default_duration", "max_duration"})
POOL_TEXTS = frozenset({"engine", "kind", "lease", "idle", "memory", "gpu_type", "zone", "state", "labels", "options"})


def read_words(words: Sequence[str], texts: frozenset[str]) -> dict[str, Any]:
    """`quota.gpus=8 pools=a,b` as nested words. An empty value takes the word away."""
    found: dict[str, Any] = {}
    for word in words:
        path, text = pair(word, "KEY=VALUE")
        *parents, last = path.split(".")
        place = found
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise BadInput(f'"{path[:80]}": "{parent}" is not a group of words')
        place[last] = _value(text, path.split(".")[0] in texts or last in texts, path in ("pools", "hosts"))
    return found


def _value(text: str, is_text: bool, is_list: bool) -> Any:
    if is_list:
        return [] if text == "none" else [name for name in text.split(",") if name] or None
    if text == "":
        return None
    if is_text:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
