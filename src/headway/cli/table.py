"""Which commands there are, in the sections of `headway --help`. A command's module is loaded when it is typed.

Verbs alone are for jobs; everything else is a noun with verbs that mean the same everywhere: create, ls, show, set, rm.
"""

from __future__ import annotations

from importlib import import_module

from headway import features
from headway.cli.frame.groups import Table


def with_features(sections: dict[str, Table]) -> dict[str, Table]:
    """These commands with those of features, each of which says after which command its own are listed."""
    found = {section: list(table.items()) for section, table in sections.items()}
    for name in reversed(features.NAMES):
        of = import_module(f"headway.features.{name}")
        rows = next((rows for rows in found.values() if any(known == of.AFTER for known, _ in rows)), None)
        rows = [*found.values()][-1] if rows is None else rows
        at = next((place + 1 for place, (known, _) in enumerate(rows) if known == of.AFTER), len(rows))
        rows[at:at] = of.COMMANDS.items()
    return {section: dict(rows) for section, rows in found.items()}


_HERE = "headway.cli.commands"
_RUN: Table = {
    "run": (f"{_HERE}.run", "run", "Submit a job and follow it."),
    "submit": (f"{_HERE}.run", "submit", "Submit a job and return at once."),
    "init": (f"{_HERE}.init_validate_schema", "init", "Write a job file with comments; it asks on a terminal."),
    "validate": (f"{_HERE}.init_validate_schema", "validate", "Check job files without submitting them."),
    "schema": (f"{_HERE}.init_validate_schema", "schema", "Print the JSON Schema of a job file, for editors."),
    "plan": (f"{_HERE}.hold_set_plan", "plan", "Say when a job would start; alone, when each waiting job will."),
    "rerun": (f"{_HERE}.fork_rerun_diff", "rerun", "Submit the same job anew: code, packages, parameters and seed."),
    "fork": (f"{_HERE}.fork_rerun_diff", "fork", "Submit a new job that begins from a checkpoint of another."),
}
_LOOK: Table = {
    "ps": (f"{_HERE}.jobs", "ps", "List jobs: unfinished ones, and those that ended lately."),
    "logs": (f"{_HERE}.logs", "logs", "Show what a job wrote, attempt after attempt."),
    "describe": (f"{_HERE}.jobs", "describe", "Show all about a job: its description, attempts and outcome."),
    "why": (f"{_HERE}.jobs", "why", "Say in one sentence why a job waits, or why it ended."),
    "events": (f"{_HERE}.events", "events", "Show what happened to a job, or lately, and the call that caused it."),
    "diff": (f"{_HERE}.fork_rerun_diff", "diff", "Show what differs between two jobs."),
    "wait": (f"{_HERE}.stop_retry_rm_wait", "wait", "Wait until jobs have ended."),
}
_CHANGE: Table = {
    "stop": (f"{_HERE}.stop_retry_rm_wait", "stop", "Ask jobs to end, with grace."),
    "retry": (f"{_HERE}.stop_retry_rm_wait", "retry", "Try again: at once if it backs off, anew if it ended."),
    "tag": (f"{_HERE}.stop_retry_rm_wait", "tag", "Tag jobs, whatever their state, for finding them again."),
    "hold": (f"{_HERE}.hold_set_plan", "hold", "Hold queued jobs until they are released."),
    "release": (f"{_HERE}.hold_set_plan", "release", "Release held jobs."),
    "set": (f"{_HERE}.hold_set_plan", "set_", "Change queued jobs: priority, queue, limits."),
    "preempt": (f"{_HERE}.checkpoints", "preempt", "Preempt jobs: each gets notice, saves, and restarts later."),
    "rm": (f"{_HERE}.stop_retry_rm_wait", "rm", "Delete ended jobs and their logs."),
}
_FILES: Table = {
    "artifact": (f"{_HERE}.artifacts", "artifact", "List and fetch the files that a job has kept."),
    "checkpoint": (f"{_HERE}.checkpoints", "checkpoint", "List, fetch and pin the checkpoints of a job."),
    "cp": (f"{_HERE}.artifacts", "cp", "Copy files out of a job, or into one that runs: JOB:PATH DEST."),
}
_SHARE: Table = {
    "login": (f"{_HERE}.login", "login", "Sign in to a shared server."),
    "logout": (f"{_HERE}.login", "logout", "Forget the token of a server."),
    "whoami": (f"{_HERE}.login", "whoami", "Show who you are signed in as, and what you may do."),
    "context": (f"{_HERE}.context", "context", "Choose which server commands work with."),
    "user": (f"{_HERE}.accounts", "user", "Create, list, change and remove users of a shared server."),
    "project": (f"{_HERE}.accounts", "project", "Create, list and remove projects, and say who is in them."),
    "token": (f"{_HERE}.accounts", "token", "Create, list and revoke tokens."),
    "audit": (f"{_HERE}.accounts", "audit", "Show who changed what, and what was refused."),
}
_CLUSTER: Table = {
    "node": (f"{_HERE}.nodes", "node", "List the nodes that have called home; cordon, drain and release them."),
    "pool": (f"{_HERE}.cluster", "pool", "List, set and remove pools: where nodes come from."),
    "queue": (f"{_HERE}.cluster", "queue", "List, set and remove queues: priority, shares, quotas, pools."),
    "licence": (f"{_HERE}.cluster", "licence", "List and set licences that jobs hold while they run."),
}
_SERVER: Table = {
    "server": (f"{_HERE}.server", "server", "Start, stop and look at the server of this machine."),
    "doctor": (f"{_HERE}.doctor", "doctor", "Look for what is wrong with this installation."),
    "config": (f"{_HERE}.config", "config", "Show the settings, and where each value comes from."),
    "completion": ("headway.cli.about", "completion", "Print the completion script for a shell."),
    "version": ("headway.cli.about", "version", "Print the version."),
}
SECTIONS = with_features(
    {
        "Run": _RUN,
        "Look": _LOOK,
        "Change": _CHANGE,
        "Files": _FILES,
        "Share": _SHARE,
        "Cluster": _CLUSTER,
        "Server": _SERVER,
    }
)
COMMANDS: Table = {name: row for table in SECTIONS.values() for name, row in table.items()}
ALIASES = {"ls": "ps", "cancel": "stop", "kill": "stop", "launch": "run"}
# Words of former versions, which stay: with no verb after them they list.
OLD = {"nodes": "node", "artifacts": "artifact", "checkpoints": "checkpoint"}
