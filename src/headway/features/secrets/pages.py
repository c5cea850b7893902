"""`headway secret`: values that jobs need and nobody should see; typed or piped in, never on a command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.groups import Noun
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output
from headway.cli.frame.things import done, listed, named, show
from headway.core.errors import BadInput
from headway.core.spec.secrets import check_secret_name


@click.group(cls=Noun)
def secret() -> None:
    """Keep values that jobs need and nobody should see: set, list and remove them, rotate the key."""


@secret.command(
    "set",
    epilog=examples(
        "headway secret set hf-token  # typed at a prompt",
        "headway secret set hf-token --file token.txt",
        "headway secret set db --reference vault://kv/vision/db --project vision",
    ),
)
@click.argument("name")
@click.option("--project", help="The project whose jobs may use it. [default: your only one, or default]")
@click.option(
    "--file", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Take it from there."
)
@click.option("--reference", metavar="URL", help="Where it is kept: aws://…, gcp://…, azure://… or vault://…")
@output_options
def set_(name: str, project: str | None, path: Path | None, reference: str | None, output: Output) -> int:
    """Set a secret: typed at a prompt, piped in, or from a file.

    A newline at the end does not belong to it. The value cannot be shown again.
    """
    check_secret_name(name)  # Before anybody types a value.
    body: dict[str, Any] = {"reference": reference} if reference else {"value": read_value(path)}
    if reference and path:
        raise BadInput("both --file and --reference are given", "a secret is kept here, or elsewhere")
    client = connect(output)
    project = project or only_project(client)
    made = client.secrets.set(project, name, body)
    output.show(made, lambda: f"secret {name} of project {project}, version {made['version']}, is set", lambda: [name])
    return exits.OK


@secret.command(epilog=examples("headway secret ls", "headway secret ls --project vision -o json"))
@click.option("--project", help="Of one project alone.")
@output_options
def ls(project: str | None, output: Output) -> int:
    """List secrets: their names, never their values."""
    found = connect(output).secrets.list(project or "")
    columns = ("PROJECT", "NAME", "VERSION", "KEPT", "SET BY")
    lines = [[each["project"], each["name"], str(each["version"]), each["kept"], each["created_by"]] for each in found]
    return listed(output, "secrets", found, lambda: output.table(columns, lines), "no secrets; headway secret set NAME")


@secret.command(
    "show", epilog=examples("headway secret show hf-token", "headway secret show hf-token --project vision")
)
@click.argument("name")
@click.option("--project", help="The project that has it. [default: your only one, or default]")
@output_options
def show_secret(name: str, project: str | None, output: Output) -> int:
    """Show who set a secret, when and where it is kept. Its value is never shown."""
    client = connect(output)
    return show(output, named(client.secrets.list(project or only_project(client)), name, "secret"), name)


@secret.command(epilog=examples("headway secret rm hf-token", "headway secret rm hf-token --project vision"))
@click.argument("name")
@click.option("--project", help="The project that has it. [default: your only one, or default]")
@output_options
def rm(name: str, project: str | None, output: Output) -> int:
    """Remove a secret. Jobs that have it already keep it."""
    client = connect(output)
    project = project or only_project(client)
    client.secrets.remove(project, name)
    said = f"secret {name} of project {project} is removed"
    return done(output, {"secret": name, "project": project}, said, name)


@secret.command(epilog=examples("headway secret rotate", "headway secret rotate --json"))
@output_options
def rotate(output: Output) -> int:
    """Seal every secret anew with the first key of the key file; afterwards older keys can be removed from it."""
    done = connect(output).secrets.rotate()
    said = f"{done['sealed']} secrets are sealed with the key {done['key']}"
    output.show(done, lambda: said, lambda: [done["key"]])
    return exits.OK


@secret.command("new-key", epilog=examples("headway secret new-key", "headway secret new-key --json"))
@output_options
def new_key(output: Output) -> int:
    """Print a fresh line for the key file of a shared server."""
    import base64
    import secrets

    line = f"{secrets.token_hex(4)} {base64.b64encode(secrets.token_bytes(32)).decode()}"
    return done(output, {"line": line}, line, line)


def only_project(client: Any) -> str:
    """The project of somebody who is in one alone; as with a job that names none."""
    roles = client.accounts.whoami()["roles"]
    return next(iter(roles)) if len(roles) == 1 else "default"


def read_value(path: Path | None) -> str:
    if path is not None:
        data = path.read_bytes()
    elif sys.stdin.isatty():
        return str(click.prompt("value", hide_input=True, confirmation_prompt=True))
    else:
        data = sys.stdin.buffer.read()
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise BadInput("the secret is not text", "encode it, for example with base64") from None
