"""Whether a directory that holds one checkpoint is whole, as the framework that wrote it would see it.

Pure: paths with sizes come in, and a reader for the small files that tell about the others. Single files are
looked at in file_formats.py.
"""

from __future__ import annotations

from headway_agent.file_formats import UNKNOWN, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping


def check(files: Mapping[str, int], read: Callable[[str], bytes]) -> Verdict:
    """UNKNOWN where no framework is recognised, or what it writes last is not there."""
    return Verdict(UNKNOWN, "", "")
