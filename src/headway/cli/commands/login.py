"""`headway login`, `logout`, `whoami`: which server one works with, and as whom."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from headway import settings
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import connect, output_options
from headway.cli.frame.output import Output
from headway.core.errors import BadInput


@click.command(
    epilog=examples(
        "headway login --server https://train.example.org",
        "headway login --server https://train.example.org --context lab < token.txt",
        "headway login --oidc",
    )
)
@click.option("--server", "url", metavar="URL", help="The server; without it, the one of server_url.")
@click.option("--context", "name", metavar="NAME", default="", help="What to call it; without, the name of its host.")
@click.option("--oidc", is_flag=True, help="Sign in through the server's identity provider, in a browser.")
@click.option("--no-browser", is_flag=True, help="With --oidc: only print the address to open.")
@output_options
def login(url: str | None, name: str, oidc: bool, no_browser: bool, output: Output) -> int:
    """Sign in to a shared server with a token, which is read from the terminal or from stdin, and kept privately.

    Commands work with that server from now on; `headway context use` chooses another.
    """
    from headway.client.connection import contexts, logins
    from headway.client.sdk import Client

    resolved, home = settings.load(os.environ), settings.home_from(os.environ)
    url = logins.plain(url or resolved.settings.server_url)
    if not url:
        raise BadInput("which server?", "headway login --server URL")
    token = _from_browser(url, no_browser) if oidc else _read_token(url)
    # Tried before it is kept: what is in the file has worked.
    client = Client({**os.environ, "HEADWAY_SERVER_URL": url, "HEADWAY_TOKEN": token})
    try:
        who = client.accounts.whoami()
    finally:
        client.close()
    logins.save(home, url, token)
    chosen = contexts.choose(home, contexts.remember(home, url, name))
    said = f'signed in to {url} as {who["name"]}; commands work with it from now on (context "{chosen}")'
    warn_of_variables(output, url)
    output.show({**who, "server": url, "context": chosen}, lambda: said, lambda: [who["name"]])
    return exits.OK


def warn_of_variables(output: Output, url: str) -> None:
    """Say that a variable of this terminal goes before what was chosen."""
    for name in ("HEADWAY_SERVER_URL", settings.CONTEXT):
        if os.environ.get(name) and settings.load(os.environ).settings.server_url != url:
            output.say(f"warning: {name} is set here, and goes before it: unset {name}")
            return


def _from_browser(url: str, no_browser: bool) -> str:
    """The token that the server gives for a visit to its identity provider."""
    from headway.client.connection import browser_login
    from headway.client.sdk import Client

    def show(address: str) -> None:
        click.echo(f"open this in a browser:\n{address}", err=True)
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    client = Client({**os.environ, "HEADWAY_SERVER_URL": url, "HEADWAY_TOKEN": "none"})
    try:
        return browser_login.token(client.link, show)
    finally:
        client.close()


def _read_token(url: str) -> str:
    if sys.stdin.isatty():
        token = str(click.prompt(f"token for {url}", hide_input=True, err=True))
    else:
        token = sys.stdin.readline()
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput("no token came in", "paste one, or: headway login < FILE")
    return token


@click.command(epilog=examples("headway logout", "headway logout --server https://train.example.org"))
@click.option("--server", "url", metavar="URL", help="The server; without it, the one of server_url.")
@output_options
def logout(url: str | None, output: Output) -> int:
    """Forget the token of a server. It stays good until it is revoked: headway token rm."""
    from headway.client.connection import logins

    resolved, home = settings.load(os.environ), settings.home_from(os.environ)
    url = logins.plain(url or resolved.settings.server_url)
    known = url in logins.read(home)
    logins.save(home, url, "")
    said = f"signed out of {url}" if known else f"you were not signed in to {url or 'any server'}"
    output.show({"server": url, "signed_out": known}, lambda: said, lambda: [url])
    return exits.OK


@click.command(epilog=examples("headway whoami", "headway whoami -q"))
@output_options
def whoami(output: Output) -> int:
    """Show who you are signed in as, and what you may do."""
    who = connect(output).accounts.whoami()
    output.show(who, lambda: _who(who), lambda: [who["name"]])
    return exits.OK


def _who(who: dict[str, Any]) -> str:
    if who["kind"] == "house":
        return "local: the owner of this home, who may do everything"
    roles = [f"{role} in {project}" for project, role in sorted(who["roles"].items())]
    if who["admin"]:
        roles.insert(0, "admin of the server")
    return f"{who['name']} ({who['kind']}): {', '.join(roles) or 'in no project yet'}"
