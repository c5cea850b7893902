"""`headway exec`, `headway ssh` and `headway tunnel`: into the place where a job runs, through its agent."""

from __future__ import annotations

import sys
from typing import Any

import click

from headway.cli.frame.examples import examples
from headway.cli.frame.options import connect, job_argument, output_options
from headway.cli.frame.output import Output
from headway.core.errors import BadInput


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "headway exec mnist -- nvidia-smi",
        "headway exec mnist --rank 3 -- py-spy dump --pid 1234",
        "headway exec -t mnist -- htop",
    ),
)
@job_argument
@click.option("--rank", type=click.IntRange(min=0), help="Beside this rank; the first one, when left out.")
@click.option("-t", "--tty", is_flag=True, help="In a terminal, for what wants one.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@output_options
def exec_(job: str, rank: int | None, tty: bool, command: tuple[str, ...], output: Output) -> int:
    """Run a command where a job runs, such as headway exec JOB -- nvidia-smi.

    It has the environment and the directory of a rank, and the exit code is its own. It ends with the job.
    """
    from headway.features.visits.terminal import visit

    return visit(connect(output), job, output, {"command": list(command), "rank": rank}, tty=tty)


@click.command(epilog=examples("headway ssh mnist", "headway ssh mnist --rank 3"))
@job_argument
@click.option("--rank", type=click.IntRange(min=0), help="Beside this rank; the first one, when left out.")
@output_options
def ssh(job: str, rank: int | None, output: Output) -> int:
    """Open a shell where a job runs, with the environment and the directory of a rank. It ends with the job."""
    from headway.features.visits.terminal import visit

    return visit(connect(output), job, output, {"rank": rank}, tty=sys.stdin.isatty())


@click.command(
    epilog=examples("headway tunnel mnist 6006", "headway tunnel mnist 8080:6006  # another port on this side")
)
@job_argument
@click.argument("port", metavar="[LOCAL:]PORT")
@output_options
def tunnel(job: str, port: str, output: Output) -> int:
    """Bring a port of the node where a job runs to this machine, on the loopback address.

    Of what the job itself serves there, such as TensorBoard: headway tunnel JOB 6006.
    """
    from headway.features.visits.tunnel import tunnel_port

    local, there = read_ports(port)
    return tunnel_port(connect(output), job, output, local, there)


def read_ports(words: str) -> tuple[int, int]:
    """`6006`, or `8080:6006` for another port on this side."""
    local, colon, there = words.rpartition(":")
    ports: list[Any] = []
    for word in (local if colon else there, there):
        if not word.isdecimal() or not 1 <= int(word) <= 65_535:
            raise BadInput(f'"{words[:80]}" is not a port', "write 6006, or 8080:6006 for another port on this side")
        ports.append(int(word))
    return ports[0], ports[1]
