"""Every error that a caller of Headway may see, split by who must act on it.

HeadwayError
 ├── UserError: change the request      BadInput, NotFound, NotAllowed, Conflict
 ├── OperatorError: fix the set-up      Unavailable (trying again may help), ServerTaken (another server owns this home)
 └── Unfinished: our own mistake
"""

from __future__ import annotations


class HeadwayError(Exception):
    """Root of all errors: a message for people, and a hint that says what to do.

    `inside` is for the log of the server alone: addresses, and what a library said.
    """

    status = 500
    kind = "internal"
    untouched = False  # Nothing was begun: whoever asked may ask again, whatever it was.

    def __init__(self, message: str, hint: str = "", inside: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.inside = inside


def for_log(error: BaseException) -> str:
    """What the server's log says of an error."""
    if not isinstance(error, HeadwayError):
        return repr(error)
    return f"{error.message}: {error.inside}" if error.inside else error.message


class UserError(HeadwayError):
    status = 400
    kind = "bad-request"


class BadInput(UserError):
    status = 422
    kind = "bad-input"


class NotFound(UserError):
    status = 404
    kind = "not-found"


class NotAllowed(UserError):
    status = 403
    kind = "not-allowed"


class Conflict(UserError):
    status = 409
    kind = "conflict"


class Unfinished(HeadwayError):
    """An error of our own met this command: nothing of it was saved, and all others go on."""


class OperatorError(HeadwayError):
    status = 503
    kind = "operator"


class Unavailable(OperatorError):
    kind = "unavailable"


class ServerTaken(OperatorError):
    kind = "server-taken"


class NotLeader(HeadwayError):
    """This server does not lead; another one does, at `leader` (empty where none is known)."""

    status = 421
    kind = "not-leader"

    def __init__(self, leader: str = "") -> None:
        where = f"the leader is at {leader}" if leader else "at the moment no server does"
        super().__init__(f"this server does not lead; {where}")
        self.leader = leader
