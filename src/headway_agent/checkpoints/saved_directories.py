"""Whether what is known to be finished of a directory is all that its framework would look for there. Pure.

A close can go unheard: then one shard of several would be missing in a checkpoint that is called complete. Where all
of a directory's files on the disk make it whole, and those that are known to be finished do not, it waits for the rest.
"""

from __future__ import annotations

from headway_agent.checkpoints.roots import inner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping

    from headway_agent.checkpoints.rounds import Signature

    Judge = Callable[[str, Mapping[str, int]], str]  # What a framework says of these files of a directory, by name.

WHOLE = "whole"


def unfit(finished: set[str], new: set[str], tree: Mapping[str, Signature], judge: Judge) -> dict[str, set[str]]:
    """By directory with something new in it: the files that it lacks, though they lie there."""
    found: dict[str, set[str]] = {}
    for above in {path.rpartition("/")[0] for path in new if "/" in inner(path)}:
        there = {path: each[0] for path, each in tree.items() if path.startswith(above + "/")}
        missing = there.keys() - finished
        if missing and judge(above, _named(above, there)) == WHOLE:
            have = {path: size for path, size in there.items() if path in finished}
            if judge(above, _named(above, have)) != WHOLE:
                found[above] = set(missing)
    return found


def _named(above: str, files: Mapping[str, int]) -> dict[str, int]:
    return {path[len(above) + 1 :]: size for path, size in files.items()}


def written_before(missing: set[str], finished: Mapping[str, Signature], tree: Mapping[str, Signature]) -> bool:
    """Whether all that is missing is older than the newest that is finished: what a framework writes last was last."""
    newest_ns = max((signature[1] for signature in finished.values()), default=0)
    return all(tree[path][1] <= newest_ns for path in missing)


def moved(before: Mapping[str, Signature], tree: Mapping[str, Signature]) -> list[tuple[str, str]]:
    """Files that are the same as before under another name; each with the highest entry whose name that explains."""
    gone = {signature: path for path, signature in before.items() if path not in tree}
    found = []
    for path, signature in tree.items() if gone else ():
        if path not in before and signature in gone:
            old, new = gone[signature].split("/"), path.split("/")
            while len(old) > 1 and len(new) > 1 and old[-1] == new[-1]:  # The directory above was renamed.
                old, new = old[:-1], new[:-1]
            found.append((path, "/".join(new)))
    return found
