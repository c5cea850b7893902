"""A task's secrets: asked of the server by name just before the start, given to the ranks as variables or files.

They are never part of a duty, so that no list of duties, journal or log has them.
"""

from __future__ import annotations

import os

from headway_agent.output import masking
from headway_agent.prepare.steps import NotHere, StepFailed, Work
from headway_agent.server_link.http import Connection, Unreachable
from headway_wire import causes

ASK_S_MAX = 60.0


def provide(work: Work) -> None:
    """Fetch what the task names, and put it where its ranks find it."""
    asked = work.asked.secrets
    values = _fetch(work)
    folder = os.path.join(work.directory, masking.DIRECTORY)
    masking.forget(work.directory)
    masking.keep(work.directory, values)
    for variable, name in asked.env.items():
        work.prepared.env[variable] = values[name]
    for variable, name in asked.files.items():
        path = os.path.join(folder, variable)
        masking.write_private(path, values[name].encode("utf-8", "surrogateescape"))
        work.prepared.env[variable] = path


def _fetch(work: Work) -> dict[str, str]:
    home = work.site.home
    assert home is not None, "only tests prepare without a server"
    connection = Connection(home)
    try:
        status, answer = connection.post("/agent/secrets", {"task": work.key}, ASK_S_MAX)
    except Unreachable as error:
        raise NotHere(f"the server did not give its secrets: {error}") from None
    finally:
        connection.close()
    if status == 200:
        return {str(name): str(value) for name, value in answer["secrets"].items()}
    detail = str(answer.get("detail") or f"the server answered {status} when asked for its secrets")
    if status in (404, 422):
        raise StepFailed(causes.SECRET_MISSING, detail)
    raise NotHere(detail)
