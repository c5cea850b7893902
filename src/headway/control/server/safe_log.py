"""How the server's log is written: a line for each fact, without secrets, and never at the cost of who says it.

An error is one line too: what it was, where, and an id by which whoever met it can ask. What was in the variables
stays out of it: there stand tokens, passwords, and the values of secrets. What a full disk does not take is dropped.
"""

from __future__ import annotations

import logging
import re
import secrets
import sys
import threading
import traceback
from collections.abc import Mapping, MutableMapping
from types import TracebackType
from typing import Any, TextIO
from urllib.parse import unquote, urlsplit

import structlog

from headway.control.state import requests

PLACES_MOST = 12  # Of a trace, the innermost; between two errors of a chain stands what the first one was.
TEXT_MAX = 2000
HIDDEN = "***"
SHORTEST = 6  # Whatever is shorter stands in many a line by chance.

# What gives a right to whoever reads it, by its looks: tokens, passwords in addresses, signatures of addresses.
LOOKS_SECRET = re.compile(
    r"(?P<bearer>\bbearer\s+)[^\s\"',;)\]}]+"
    r"|(?P<token>\bhw[ns]?_)[A-Za-z0-9_\-.=]{8,}"
    r"|(?P<at>://[^\s:/@\"']*:)[^\s@/\"']+(?=@)"
    r"|(?P<word>(?:[?&]|\b)(?:signature|x-amz-signature|x-amz-security-token|x-amz-credential|sig|password)=)"
    r"[^\s&\"',)]+",
    re.IGNORECASE,
)

NAMES_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD)$", re.IGNORECASE)

_known: set[str] = set()


def hide(*values: str) -> None:
    """Let these values never stand in the log: the server's own token, keys and passwords."""
    _known.update(value for value in values if len(value) >= SHORTEST)


def hide_own(environ: Mapping[str, str], store_url: str, *values: str) -> None:
    """Hide what this server itself shows to others: by the names of its variables, and its database's password."""
    hide(*values, *(value for name, value in environ.items() if NAMES_SECRET.search(name)))
    try:
        password = urlsplit(store_url).password or ""
    except ValueError:
        return  # An address that is none is refused soon, and hidden by its looks.
    hide(password, unquote(password))


def scrubbed(text: str) -> str:
    """A text without what gives a right to its reader."""
    for value in _known:
        if value in text:
            text = text.replace(value, HIDDEN)
    return LOOKS_SECRET.sub(lambda found: f"{found[str(found.lastgroup)]}{HIDDEN}", text)


def error_id() -> str:
    """What a user who met an error can name, and an operator finds in the log."""
    return secrets.token_hex(4)


def one_line(error: BaseException) -> str:
    """What went wrong and where, innermost first."""
    places = [
        f"{place.filename.rpartition('/')[2]}:{place.lineno} {place.name}"
        for place in reversed(traceback.extract_tb(error.__traceback__))
    ]
    told = f"{type(error).__name__}: {error}" + (f" at {' < '.join(places[:PLACES_MOST])}" if places else "")
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        told += f"; after {type(before).__name__}: {before}"
    return " ".join(told.split())[:TEXT_MAX]


class Unfailing:
    """A stream that takes every line, also where the one behind it does not."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            pass  # It may be written with a later line, once there is room.


def _with_request(_logger: Any, _method: str, said: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Every line that is said while a call is answered repeats the call's id."""
    if request := requests.current.get():
        said.setdefault("request", request)
    return said


def _without_trace(_logger: Any, _method: str, said: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """An error that is told along becomes a field; where nobody has given it an id, it gets one."""
    given = said.pop("exc_info", None)
    error = sys.exc_info()[1] if given is True else given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        said.setdefault("id", error_id())
        said["error"] = one_line(error)
    return said


def _scrub(_logger: Any, _method: str, said: Any) -> str:
    """The last step, on the whole line: whatever it is made of. Lines within a value stay in it."""
    return scrubbed(said.replace("\r", "").replace("\n", "\\n"))


class _Also(logging.Handler):
    """What libraries say by `logging` goes the same way: the HTTP server tells errors of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            words = {"by": record.name} | ({"exc_info": record.exc_info} if record.exc_info else {})
            said = " ".join(record.getMessage().split())[:TEXT_MAX]
            structlog.get_logger().log(max(record.levelno, logging.DEBUG), said, **words)
        except Exception:
            pass  # A library whose words cannot be put together must not fail for it.


def write_log() -> None:
    """From here on every line goes through the steps above, and none of them can end the thread that says it."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _with_request,
            structlog.processors.add_log_level,
            structlog.dev.set_exc_info,
            _without_trace,
            structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty()),
            _scrub,
        ],
        logger_factory=structlog.PrintLoggerFactory(Unfailing(sys.stdout)),  # type: ignore[arg-type]
    )
    logging.basicConfig(handlers=[_Also()], level=logging.WARNING, force=True)
    sys.excepthook = _unhandled
    threading.excepthook = lambda args: _unhandled(args.exc_type, args.exc_value, args.exc_traceback)


def _unhandled(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """A thread, or the process, ends by an error that nobody took."""
    if isinstance(error, KeyboardInterrupt | SystemExit) or error is None:
        return
    structlog.get_logger().critical("ended by an error", exc_info=(kind, error, trace))
