"""Several jobs of one file, submitted all or none, and followed in the order in which they wait for each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headway.cli.frame import exits
from headway.cli.frame.output import Output
from headway.cli.job_flags.bundle_upload import send

if TYPE_CHECKING:
    from headway.client.code.prepared_job import PreparedJob


def run(client: Any, found: Sequence[PreparedJob], output: Output, *, detach: bool, force: bool) -> int:
    """Bring the code, submit the jobs in one request, and follow them unless they are to be left alone."""
    for prepared in {each.raw.get("bundle"): each for each in found}.values():
        send(client, prepared, output)
    ids = client.submit_many([each.raw for each in found], force=force)
    made = [_shown(id, each) for id, each in zip(ids, found, strict=True)]
    if detach:
        output.show({"jobs": made}, lambda: _table(output, made), lambda: ids)
        output.say(f"headway: {len(ids)} jobs are submitted; wait for them: headway wait {' '.join(ids)}")
        return exits.OK
    if output.machine:
        return _await_all(client, made, output)
    output.say(_table(output, made))
    return _follow(client, _in_order(made), output)


def _shown(id: str, prepared: PreparedJob) -> dict[str, Any]:
    from headway.core.spec.job import read_spec

    spec = read_spec(prepared.raw)
    return {"id": id, "name": spec.name, "after": [each.job for each in spec.wishes.after], "array": spec.wishes.array}


def _table(output: Output, made: Sequence[dict[str, Any]]) -> str:
    rows = [(each["id"], each["name"], ", ".join(each["after"]) or "-") for each in made]
    return output.table(("ID", "NAME", "AFTER"), rows)


def _in_order(made: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each behind those for which it waits."""
    import graphlib

    by_name = {each["name"]: each for each in made}
    graph = {
        each["id"]: [by_name[name]["id"] for name in each["after"] if name in by_name and by_name[name] is not each]
        for each in made
    }
    by_id = {each["id"]: each for each in made}
    return [by_id[id] for id in graphlib.TopologicalSorter(graph).static_order()]


def _follow(client: Any, made: Sequence[dict[str, Any]], output: Output) -> int:
    """One story after another; the exit code tells of the first that did not succeed."""
    from headway.cli.screen.follow import follow
    from headway.cli.screen.follow_array import follow_array

    code = exits.OK
    for each in made:
        if each["array"]:
            output.say(f"headway: array {each['id']} ({each['name']}) of {each['array']:,} jobs")
            ended = follow_array(client, each["id"], output)
        else:
            output.say(f"headway: job {each['id']} ({each['name']})")
            ended = follow(client, each["id"], output)
        if ended == exits.INTERRUPTED:
            return ended
        code = code or ended
    return code


def _await_all(client: Any, made: Sequence[dict[str, Any]], output: Output) -> int:
    """For programs: how all of them ended, in one answer."""
    ended = [job for each in made for job in _ends(client, each)]
    output.show({"jobs": ended}, lambda: "", list)
    return next((code for code in map(exits.for_job, ended) if code), exits.OK)


def _ends(client: Any, made: dict[str, Any]) -> Iterator[dict[str, Any]]:
    ids = [f"{made['id']}-{number}" for number in range(made["array"])] or [made["id"]]
    for id in ids:
        job, _ = client.wait(id)
        yield job
