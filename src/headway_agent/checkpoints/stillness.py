"""What standing still says of files: the last resort where neither the kernel, the format nor the job tells anything.

Pure. A file that stands still may be half of a save whose other half was written a moment later.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping

    from headway_agent.checkpoints.completeness import Signature, Tree

FAILED_QUIET_S = 2.0  # What a rank wrote so shortly before it failed may be the very write that failed.
TOGETHER_NS = 5 * 10**9  # Files that were written so shortly after one another may be of one save.


def is_fresh(tree: Tree, still_s: Mapping[str, float], unchanged_s: float) -> bool:
    """Whether something changed so shortly before the end that it may be the very write that failed."""
    if not still_s:
        return unchanged_s < FAILED_QUIET_S
    return any(still_s.get(path, 0.0) < FAILED_QUIET_S for path in tree)


def without_halves(still: Mapping[str, Signature], tree: Tree, old: Mapping[str, Signature]) -> dict[str, Signature]:
    """Of what stands still: that which need not wait for a file that was written anew with it, and is yet to settle.

    `old`: files as they were kept last, whose new content is not known to be finished. They would be kept as they
    were, beside the half that is new. One that is written to again and again is nobody's other half.
    """
    waits = [tree[path][1] for path, kept in old.items() if path in tree and path not in still and tree[path] != kept]
    return {
        path: signature
        for path, signature in still.items()
        if not any(abs(signature[1] - written_ns) <= TOGETHER_NS for written_ns in waits)
    }
