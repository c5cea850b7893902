"""`headway user`, `project`, `token`, `audit`: who may work here, where, and what they did."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.groups import Noun
from headway.cli.frame.options import DURATION, connect, output_options
from headway.cli.frame.output import Output
from headway.cli.frame.things import done, listed, named, show
from headway.core.access.actor import ROLES
from headway.core.errors import BadInput
from headway.core.units import show_duration

ROLE = click.Choice(ROLES)


@click.group(cls=Noun, old={"add": "create", "role": "set"})
def user() -> None:
    """Users of a shared server (project admins only)."""


@user.command(
    name="create",
    epilog=examples(
        "headway user create mel --project vision --project speech:viewer", "headway user create --admin ada"
    ),
)
@click.argument("name")
@click.option("--admin", is_flag=True, help="An admin of the whole server.")
@click.option("--email", default="", help="Their address; an identity provider knows them by it.")
@click.option("--project", "places", multiple=True, metavar="PROJECT[:ROLE]", help="Put them there (as member).")
@click.option("--no-token", is_flag=True, help="Create no token: they sign in through the identity provider.")
@output_options
def add_user(name: str, admin: bool, email: str, places: Sequence[str], no_token: bool, output: Output) -> int:
    """Create a user and a token for their `headway login`, which is shown only once."""
    accounts = connect(output).accounts
    wanted = [(place.partition(":")[0], place.partition(":")[2] or "member") for place in places]
    for _, role in wanted:
        if role not in ROLES:
            raise BadInput(f'--project: "{role}" is not a role', "one of " + ", ".join(ROLES))
    made = accounts.add_user(name, email, admin)
    for project, role in wanted:
        accounts.set_member(project, name, role)
    token = "" if no_token else str(accounts.add_token(user=name, label="first")["token"])
    said = f"{name} is a user" + (f"; the token, shown this once:\n{token}" if token else "")
    output.show({**made, "token": token or None}, lambda: said, lambda: [token or name])
    return exits.OK


@user.command(name="ls", epilog=examples("headway user ls", "headway user ls -o json"))
@output_options
def list_users(output: Output) -> int:
    """List the users, and their roles."""
    found = connect(output).accounts.users()
    rows = [
        (each["name"], each["email"] or "–", "yes" if each["admin"] else "–", _roles(each["roles"])) for each in found
    ]
    heads = ("NAME", "EMAIL", "ADMIN", "ROLES")
    empty = "no users: whoever has this home's token may do everything; the first one: headway user create --admin NAME"
    return listed(output, "users", found, lambda: output.table(heads, rows), empty)


def _roles(roles: dict[str, str]) -> str:
    return ", ".join(f"{project}:{role}" for project, role in sorted(roles.items())) or "–"


@user.command(name="show", epilog=examples("headway user show mel", "headway user show mel -o json"))
@click.argument("name")
@output_options
def show_user(name: str, output: Output) -> int:
    """Show one user: address, rights and roles."""
    return show(output, named(connect(output).accounts.users(), name, "user"), name)


@user.command(name="rm", epilog=examples("headway user rm mel", "headway user rm mel -q"))
@click.argument("name")
@output_options
def drop_user(name: str, output: Output) -> int:
    """Remove a user, with all tokens. Their jobs stay."""
    connect(output).accounts.drop_user(name)
    return done(output, {"user": name}, f"{name} is removed, and all tokens are revoked", name)


@user.command(
    name="set", epilog=examples("headway user set mel --admin", "headway user set mel --email mel@example.org")
)
@click.argument("name")
@click.option("--admin/--no-admin", default=None, help="Whether they are admin of the whole server.")
@click.option("--email", help="Their address.")
@output_options
def role(name: str, admin: bool | None, email: str | None, output: Output) -> int:
    """Make a user an admin of the server, or no longer. Roles in projects: headway project members."""
    changes = {word: value for word, value in (("admin", admin), ("email", email)) if value is not None}
    if not changes:
        raise BadInput("nothing to change", "--admin, --no-admin or --email")
    made = connect(output).accounts.set_user(name, **changes)
    said = f"{name} is {'an' if made['admin'] else 'no'} admin of the server"
    return done(output, made, said, name)


@click.group(cls=Noun, old={"add": "create"})
def project() -> None:
    """Projects: whose jobs, files and schedules are whose."""


@project.command(
    name="create", epilog=examples("headway project create vision", "headway project create vision --json")
)
@click.argument("name")
@output_options
def add_project(name: str, output: Output) -> int:
    """Create a project (server admins only)."""
    connect(output).accounts.add_project(name)
    said = f"project {name} is made; put people into it: headway project members {name} --set NAME:ROLE"
    return done(output, {"project": name}, said, name)


@project.command(name="ls", epilog=examples("headway project ls", "headway project ls -o name"))
@output_options
def list_projects(output: Output) -> int:
    """List the projects that you may see."""
    found = connect(output).accounts.projects()
    rows = [(each["name"], each["created_by"], _ago(each["created_at"])) for each in found]
    heads = ("NAME", "MADE BY", "AGE")
    empty = "no projects but the default one; make one: headway project create NAME"
    return listed(output, "projects", found, lambda: output.table(heads, rows), empty)


@project.command(name="show", epilog=examples("headway project show vision", "headway project show vision -o json"))
@click.argument("name")
@output_options
def show_project(name: str, output: Output) -> int:
    """Show one project: who made it, who is in it, and where its secrets may be kept."""
    accounts = connect(output).accounts
    found = named(accounts.projects(), name, "project")
    return show(output, {**found, "members": {each["user"]: each["role"] for each in accounts.members(name)}}, name)


@project.command(name="rm", epilog=examples("headway project rm vision", "headway project rm vision -q"))
@click.argument("name")
@output_options
def drop_project(name: str, output: Output) -> int:
    """Remove a project in which nothing goes on. Records of its jobs stay, for admins of the server."""
    connect(output).accounts.drop_project(name)
    return done(output, {"project": name}, f"project {name} is removed", name)


@project.command(
    epilog=examples("headway project members vision", "headway project members vision --set mel:member --rm ada")
)
@click.argument("name")
@click.option("--set", "given", multiple=True, metavar="USER:ROLE", help="Give a user a role: viewer, member, admin.")
@click.option("--rm", "gone", multiple=True, metavar="USER", help="Take a user out.")
@output_options
def members(name: str, given: Sequence[str], gone: Sequence[str], output: Output) -> int:
    """List who is in a project, and change it (project admins only)."""
    accounts = connect(output).accounts
    for each in given:
        user_name, _, role_name = each.rpartition(":")
        if not user_name:
            raise BadInput(f'--set: "{each}" is not USER:ROLE', "such as mel:member")
        accounts.set_member(name, user_name, role_name)
    for each in gone:
        accounts.set_member(name, each, None)
    found = accounts.members(name)
    rows = [(each["user"], each["role"]) for each in found]
    output.show(
        {"members": found}, lambda: output.table(("USER", "ROLE"), rows), lambda: [each["user"] for each in found]
    )
    return exits.OK


@project.command(
    epilog=examples(
        "headway project references vision --allow vault://kv/vision/",
        "headway project references vision --allow 'aws://eu-west-1/vision-*'",
    )
)
@click.argument("name")
@click.option(
    "--allow", "more", multiple=True, metavar="PLACE", help="All below it (…/), all that begin so (…*), or it."
)
@click.option("--rm", "gone", multiple=True, metavar="PLACE", help="Allow it no longer.")
@output_options
def references(name: str, more: Sequence[str], gone: Sequence[str], output: Output) -> int:
    """List where secrets of a project may be kept elsewhere, and change it (server admins only)."""
    accounts = connect(output).accounts
    known = named(accounts.projects(), name, "project")
    missing = [each for each in gone if each not in known["allowed"]]
    if missing:
        raise BadInput(f'--rm: "{missing[0]}" is not allowed', f"headway project references {name}")
    found = [each for each in dict.fromkeys([*known["allowed"], *more]) if each not in gone]
    if more or gone:
        found = list(accounts.allow_references(name, found)["allowed"])
    output.show({"references": found}, lambda: "\n".join(found) or "none are allowed", lambda: found)
    return exits.OK


@click.group(cls=Noun, old={"revoke": "rm"})
def token() -> None:
    """Tokens: what a program or a person shows to be let in."""


@token.command(
    epilog=examples(
        "headway token create --label laptop --expires 30d", "headway token create --project vision --label ci"
    )
)
@click.option("--label", default="", help="What it is for.")
@click.option("--user", "user_name", help="Whose it is (server admins only).")
@click.option("--project", "project_name", help="A service token of this project (project admins only).")
@click.option("--role", "role_name", type=ROLE, help="Of a service token. [default: member]")
@click.option("--expires", type=DURATION, metavar="DURATION", help="How long it is good. [default: token_life_s]")
@output_options
def create(
    label: str,
    user_name: str | None,
    project_name: str | None,
    role_name: str | None,
    expires: float | None,
    output: Output,
) -> int:
    """Create a token. It is shown only once."""
    given = {"user": user_name, "project": project_name, "role": role_name, "expires_in_s": expires}
    words = {word: value for word, value in given.items() if value is not None}
    made = connect(output).accounts.add_token(label=label, **words)
    output.show(made, lambda: made["token"], lambda: [made["token"]])
    return exits.OK


@token.command(name="ls", epilog=examples("headway token ls", "headway token ls -o json"))
@output_options
def list_tokens(output: Output) -> int:
    """List the tokens that are yours to revoke, and when each was last used."""
    found = connect(output).accounts.tokens()
    output.show(
        {"tokens": found},
        lambda: output.table(("PREFIX", "LABEL", "FOR", "STATE", "LAST USE"), [_token_row(each) for each in found]),
        lambda: [each["prefix"] for each in found],
    )
    if not found:
        output.say("no tokens; make one: headway token create --label laptop")
    return exits.OK


def _token_row(each: dict[str, Any]) -> tuple[str, ...]:
    whose = f"{each['project']} ({each['role']})" if each["kind"] == "service" else each["user"]
    return (each["prefix"], each["label"] or "–", whose, _standing(each), _ago(each["used_at"]))


def _standing(each: dict[str, Any]) -> str:
    if each["revoked_at"] is not None:
        return "revoked"
    if each["expires_at"] is None:
        return "good"
    left_s = each["expires_at"] - time.time()
    return f"good for {show_duration(left_s)}" if left_s > 0 else "expired"


def _ago(at: float | None) -> str:
    return "never" if at is None else f"{show_duration(max(0.0, time.time() - at))} ago"


@token.command(name="rm", epilog=examples("headway token rm hw_4f2a", "headway token rm hw_4f2a --json"))
@click.argument("prefix")
@output_options
def revoke(prefix: str, output: Output) -> int:
    """Revoke a token."""
    connect(output).accounts.revoke(prefix)
    return done(output, {"prefix": prefix}, f"{prefix} is revoked", prefix)


@click.command(epilog=examples("headway audit --since 1d", "headway audit --actor mel --limit 20"))
@click.option("--since", type=DURATION, metavar="DURATION", help="Only what happened within this long.")
@click.option("--actor", default="", help="Only what this one did.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=1000, help="The newest so many.")
@output_options
def audit(since: float | None, actor: str, limit: int, output: Output) -> int:
    """Show who changed what, and what was refused (server admins only)."""
    from_ = 0.0 if since is None else max(0.0, time.time() - since)
    found = connect(output).accounts.audit(from_, actor, limit)
    rows = [_audit_row(each) for each in found]
    output.show(
        {"entries": found},
        lambda: output.table(("TIME", "WHO", "WHAT", "TO WHAT", "PROJECT", "OUTCOME"), rows),
        lambda: [str(each["seq"]) for each in found],
    )
    return exits.OK


def _audit_row(each: dict[str, Any]) -> tuple[str, ...]:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each["at"]))
    who = each["actor"] or each["kind"]
    outcome = f"{each['outcome']}: {each['detail']}" if each["detail"] else each["outcome"]
    return (at, who, each["what"], each["target"] or "–", each["project"] or "–", outcome)
