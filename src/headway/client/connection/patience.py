"""How long a server that does not answer is waited for, and which servers of which versions this home has met.

A server that has answered before is away for a moment: it is restarted, or another takes over. One that never has may
be a wrong address, and whoever mistyped it wants to know soon. Imports cost time: nothing of TLS is loaded here.
"""

from __future__ import annotations

import json
import socket
import time

from headway.settings import Home
from headway.whole_files import write_whole

STRANGER_S_MAX = 15.0  # Longer than a take-over lasts (5 s), and than a server takes to be started again.
NO_SUCH_NAME_S_MAX = 3.0
MET_MOST = 100

DOCTOR = "headway doctor looks for what is wrong"


def worth_waiting_s(error: BaseException, patience_s: float, known: bool) -> float:
    """How long a call goes on after this failure; `known` if the server has answered before, or the user insists."""
    if is_distrust(error):
        return 0.0
    if known:
        return patience_s
    if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
        return min(patience_s, NO_SUCH_NAME_S_MAX)
    return min(patience_s, STRANGER_S_MAX)


def hint_for(error: BaseException, known: bool) -> str:
    """What to do about it."""
    if is_distrust(error):
        return "ca_file names certificates that are trusted besides the system's own"
    if "WRONG_VERSION_NUMBER" in str(error):
        return "it may not speak TLS: is it http:// in server_url?"
    if isinstance(error, socket.gaierror):
        return DOCTOR if known else "is the name in server_url right?"
    if isinstance(error, ConnectionRefusedError) and not known:
        return "nothing listens there: is the port in server_url right? server_wait_s=5m waits for one that starts"
    return DOCTOR


def is_distrust(error: BaseException) -> bool:
    """Whether a certificate is not believed: no waiting helps."""
    return type(error).__name__ == "SSLCertVerificationError"


def first_told(home: Home, url: str, version: str, ours: str) -> bool:
    """Whether a server of another version is met for the first time by this one; once is enough to say so."""
    file = home.cache / "versions-met.json"
    try:
        met = dict(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        met = {}
    if met.get(url) == [version, ours]:
        return False
    kept = dict([*((each, pair) for each, pair in met.items() if each != url), (url, [version, ours])][-MET_MOST:])
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, json.dumps(kept))
    except OSError:
        pass  # It is said again, then.
    return True


class Acquaintances:
    """The servers that have answered somebody of this home, by their addresses."""

    def __init__(self, home: Home) -> None:
        self._file = home.cache / "servers-met.json"

    def knows(self, url: str) -> bool:
        return url in self._read()

    def remember(self, url: str) -> None:
        """Losing this costs patience, nothing else: so no error is worth one."""
        met = self._read()
        if url in met:
            return
        newest = dict(sorted({**met, url: time.time()}.items(), key=lambda each: -each[1])[:MET_MOST])
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._file, json.dumps(newest))
        except OSError:
            pass

    def _read(self) -> dict[str, float]:
        try:
            return {str(url): float(at) for url, at in json.loads(self._file.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
