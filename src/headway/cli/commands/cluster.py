"""`headway queue`, `pool` and `licence`: the house's rules, listed and changed while it runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.groups import Noun
from headway.cli.frame.options import connect, output_options, pair
from headway.cli.frame.output import Output
from headway.cli.frame.things import done, listed, named, refuse_second, show
from headway.cli.screen import cluster as cluster_pages
from headway.core.errors import BadInput


@click.group(cls=Noun)
def queue() -> None:
    """Queues: their priority, shares, quotas, limits and pools."""


@queue.command(name="ls", epilog=examples("headway queue ls", "headway queue ls -o json"))
@output_options
def queue_ls(output: Output) -> int:
    """List queues with what waits and runs in them."""
    found = connect(output).house.queues()
    return listed(output, "queues", found, lambda: cluster_pages.queues(output, found), "no queues")


@queue.command(name="show", epilog=examples("headway queue show default", "headway queue show default -o json"))
@click.argument("name")
@output_options
def queue_show(name: str, output: Output) -> int:
    """Show one queue with all its words."""
    return show(output, named(connect(output).house.queues(), name, "queue"), name)


@queue.command(
    name="create",
    epilog=examples("headway queue create night priority=5 pools=lab", "headway queue create quick max_duration=30m"),
)
@click.argument("name")
@click.argument("words", metavar="KEY=VALUE...", nargs=-1)
@output_options
def queue_create(name: str, words: Sequence[str], output: Output) -> int:
    """Make a new queue; one that exists is not touched."""
    house = connect(output).house
    refuse_second(house.queues(), name, "queue")
    return done(output, house.set_queue(name, read_words(words, QUEUE_TEXTS)), f"queue {name} is made", name)


@queue.command(
    name="set",
    epilog=examples(
        "headway queue set night priority=5 max_duration=8h pools=lab,cloud",
        "headway queue set night quota.gpus=8 user_quota.jobs=2 user_quotas.ada.gpus=4",
        "headway queue set night policy=  # takes a word away",
    ),
)
@click.argument("name")
@click.argument("words", metavar="KEY=VALUE...", nargs=-1)
@output_options
def queue_set(name: str, words: Sequence[str], output: Output) -> int:
    """Change a queue, or make it where there is none."""
    queue = connect(output).house.set_queue(name, read_words(words, QUEUE_TEXTS))
    return done(output, queue, f"queue {name} is set", name)


@queue.command(name="rm", epilog=examples("headway queue rm night", "headway queue rm night -q"))
@click.argument("name")
@output_options
def queue_rm(name: str, output: Output) -> int:
    """Remove a queue in which nothing waits or runs. The default one stays, without rules."""
    connect(output).house.drop_queue(name)
    said = "has no rules any more" if name == "default" else "is removed"
    return done(output, {"queue": name}, f"queue {name} {said}", name)


@click.group(cls=Noun)
def pool() -> None:
    """Pools: where nodes come from, how many, and what they have."""


@pool.command(name="ls", epilog=examples("headway pool ls", "headway pool ls -o yaml"))
@output_options
def pool_ls(output: Output) -> int:
    """List pools and what is free on their nodes."""
    found = connect(output).house.pools()
    empty = "no pool, so nothing can run; make one: headway pool create local engine=local nodes=1"
    return listed(output, "pools", found, lambda: cluster_pages.pools(output, found), empty)


@pool.command(name="show", epilog=examples("headway pool show local", "headway pool show local -o json"))
@click.argument("name")
@output_options
def pool_show(name: str, output: Output) -> int:
    """Show one pool with all its words."""
    return show(output, named(connect(output).house.pools(), name, "pool"), name)


@pool.command(
    name="create",
    epilog=examples(
        "headway pool create lab engine=local nodes=4 cpus=2 memory=4G",
        "headway pool create hosts engine=ssh hosts=gpu1,ada@gpu2:2222",
    ),
)
@click.argument("name")
@click.argument("words", metavar="KEY=VALUE...", nargs=-1)
@output_options
def pool_create(name: str, words: Sequence[str], output: Output) -> int:
    """Make a new pool; one that exists is not touched."""
    house = connect(output).house
    refuse_second(house.pools(), name, "pool")
    return done(output, house.set_pool(name, read_words(words, POOL_TEXTS)), f"pool {name} is made", name)


@pool.command(
    name="set",
    epilog=examples(
        "headway pool set lab engine=local nodes=4 cpus=2 memory=4G",
        "headway pool set lab engine=ssh hosts=gpu1,ada@gpu2:2222 options.call_home=tunnel",
        "headway pool set lab labels.rack=7 price=1.20 kind=spot",
        "headway pool set lab state=draining  # nothing new is placed there",
    ),
)
@click.argument("name")
@click.argument("words", metavar="KEY=VALUE...", nargs=-1)
@output_options
def pool_set(name: str, words: Sequence[str], output: Output) -> int:
    """Change a pool, or make it where there is none."""
    pool = connect(output).house.set_pool(name, read_words(words, POOL_TEXTS))
    return done(output, pool, f"pool {name} is set", name)


@pool.command(name="render", epilog=examples("headway pool render cluster", "headway pool render cluster --nodes 4"))
@click.argument("name")
@click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="How many nodes are ordered.")
@output_options
def pool_render(name: str, nodes: int, output: Output) -> int:
    """Print exactly what would be sent for an order of nodes, and send nothing. Tokens are left out."""
    found = connect(output).house.render_pool(name, nodes)
    output.show(found, lambda: cluster_pages.request(found), lambda: found["nodes"])
    return exits.OK


@pool.command(name="rm", epilog=examples("headway pool rm lab", "headway pool rm lab --json"))
@click.argument("name")
@output_options
def pool_rm(name: str, output: Output) -> int:
    """Remove a pool: its jobs finish, then its nodes are released."""
    pool = connect(output).house.drop_pool(name)
    return done(output, pool, f"pool {name} leaves: its jobs finish, then its nodes are given back", name)


@click.group(cls=Noun)
def licence() -> None:
    """Licences: named countable things that jobs hold while they run."""


@licence.command(name="ls", epilog=examples("headway licence ls", "headway licence ls -o json"))
@output_options
def licence_ls(output: Output) -> int:
    """List licences and their counts."""
    found = connect(output).house.licences()
    rows = [(name, str(count)) for name, count in found.items()]
    output.show(found, lambda: output.table(("LICENCE", "COUNT"), rows), lambda: list(found))
    if not found:
        output.say("no licences; headway licence set NAME=COUNT")
    return exits.OK


@licence.command(name="set", epilog=examples("headway licence set matlab=4", "headway licence set matlab=4 gurobi=1"))
@click.argument("words", metavar="NAME=COUNT...", nargs=-1, required=True)
@output_options
def licence_set(words: Sequence[str], output: Output) -> int:
    """Set how many there are; NAME= removes one."""
    found = connect(output).house.set_licences(read_words(words, frozenset()))
    output.show(found, lambda: ", ".join(f"{name}: {count}" for name, count in found.items()), lambda: list(found))
    return exits.OK


@licence.command(name="rm", epilog=examples("headway licence rm matlab", "headway licence rm matlab -q"))
@click.argument("name")
@output_options
def licence_rm(name: str, output: Output) -> int:
    """Remove a licence: jobs that ask for it wait from now on."""
    house = connect(output).house
    named([{"name": each} for each in house.licences()], name, "licence")
    return done(output, house.set_licences({name: None}), f"licence {name} is removed", name)


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
