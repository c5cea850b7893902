"""Every error that a caller of Headway may see, split by who must act on it.

HeadwayError
 ├── UserError          the caller asked for something that cannot be: change the request
 │    ├── BadInput          a value is wrong (exit code 2)
 │    ├── NotFound          there is nothing of that name
 │    ├── NotAllowed        the token does not permit it
 │    └── Conflict          it cannot be done in the present state
 └── OperatorError      the machine, disk, network or set-up must be mended; the request may be right
      ├── Unavailable       the server, store or storage cannot take the request now; trying again may help
      └── ServerTaken       another server owns this home
"""

from __future__ import annotations


class HeadwayError(Exception):
    """Root of all errors: a message for people, and a hint that says what to do."""

    status = 500
    kind = "internal"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


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


class OperatorError(HeadwayError):
    status = 503
    kind = "operator"


class Unavailable(OperatorError):
    kind = "unavailable"


class ServerTaken(OperatorError):
    kind = "server-taken"
