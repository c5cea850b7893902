"""Whether what is known to be finished of a directory is all that its framework would look for there. Pure.

A close can go unheard: then one shard of several would be missing in a checkpoint that is called complete. Where all
of a directory's files on the disk make it whole, and those that are known to be finished do not, it waits for the rest.
"""

from __future__ import annotations

from headway_agent.workdir_notes import inner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping

    from headway_agent.rounds import Signature

    Verdict = Callable[[str, Mapping[str, int]], bool]  # Whether these files of a directory, with sizes, are whole.


def unfit(finished: set[str], new: set[str], tree: Mapping[str, Signature], is_whole: Verdict) -> dict[str, set[str]]:
    """By directory with something new in it: the files that it lacks, though they lie there."""
    found: dict[str, set[str]] = {}
    for above in {path.rpartition("/")[0] for path in new if "/" in inner(path)}:
        there = {path: signature[0] for path, signature in tree.items() if path.startswith(above + "/")}
        have = {path: size for path, size in there.items() if path in finished}
        if len(have) < len(there) and is_whole(above, there) and not is_whole(above, have):
            found[above] = set(there) - set(have)
    return found


def written_before(missing: set[str], finished: Mapping[str, Signature], tree: Mapping[str, Signature]) -> bool:
    """Whether all that is missing is older than the newest that is finished: what a framework writes last was last."""
    newest_ns = max((signature[1] for signature in finished.values()), default=0)
    return all(tree[path][1] <= newest_ns for path in missing)
