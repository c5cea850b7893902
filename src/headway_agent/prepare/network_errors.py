"""How it is known that a network or a busy server, not the job's own words, keeps a task from what it needs.

That may be over in a minute, so the task is tried again. A refusal, or a host that nobody knows, will be the same then.
"""

from __future__ import annotations

import re

BUSY = frozenset([408, 425, 429, *range(500, 600)])  # Statuses of HTTP.
# Said where all names are known. A resolver that cannot be reached itself says that its failure is temporary.
UNKNOWN_HOST = re.compile("(?i)name or service not known|no address associated|nodename nor servname")
# In the words of uv, rattler, conda and pip.
NETWORK = re.compile(
    r"error sending request|tcp connect error|dns error|network is unreachable|temporary failure in name resolution"
    r"|could(?:n't| not) (?:resolve host|connect to server)|connection (?:refused|reset|closed|timed out)"
    r"|(?:read|operation) timed out|server error \(50[0234]|client error \((?:408|429)"
    r"|HTTP (?:000 connection failed|50[0234] )",
    re.IGNORECASE,
)


def said_by(output: str) -> bool:
    """Whether a tool that fetches packages failed for want of a network."""
    return bool(NETWORK.search(output)) and not UNKNOWN_HOST.search(output)
