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
    """Whoever asked must ask for something else."""

    status = 400
    kind = "bad-request"


class BadInput(UserError):
    """What was given cannot be, or contradicts itself; nothing was done."""

    status = 422
    kind = "bad-input"


class NotFound(UserError):
    """There is nothing of that name, or nothing that the caller may see."""

    status = 404
    kind = "not-found"


class NotAllowed(UserError):
    """The token is missing or wrong, or its owner may not do this."""

    status = 403
    kind = "not-allowed"


class Conflict(UserError):
    """It cannot be done in the state that the thing is in."""

    status = 409
    kind = "conflict"


class Unfinished(HeadwayError):
    """An error of our own met this command: nothing of it was saved, and all others go on."""


class OperatorError(HeadwayError):
    """Whoever runs the server must put something right."""

    status = 503
    kind = "operator"


class Unavailable(OperatorError):
    """The server does not answer, or cannot just now; trying again may help."""

    kind = "unavailable"


class ServerTaken(OperatorError):
    """Another server owns this home."""

    kind = "server-taken"


class NotLeader(HeadwayError):
    """This server does not lead; another one does, at `leader` (empty where none is known)."""

    status = 421
    kind = "not-leader"

    def __init__(self, leader: str = "") -> None:
        where = f"the leader is at {leader}" if leader else "at the moment no server does"
        super().__init__(f"this server does not lead; {where}")
        self.leader = leader
