"""What the end of a rank looks like, and what that means: a table of facts and patterns with a cause for each.

Pure. outcomes.py asks it about the first failing rank. What follows from a cause is in the server's table; `again` says
only whether the same thing can be expected to go better a second time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headway_agent.decide.outcomes import SIGNAL_NAMES
from headway_wire import causes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

TAIL_BYTES = 64 << 10
NEAR_END_LINES = 200  # Where there is no exception, patterns are looked for in so many lines.
FRESH_LINES = 20  # An exception further from the end than this is not why a signal came.
LINE_CHARS_MAX = 2000
SHELL_BASE = 128  # A shell tells of a child's signal as 128 + its number.


@dataclass(frozen=True)
class Row:
    """`error`: seen in the last exception. `text`: seen near the end, where the last exception says nothing by itself.
    `signal`: it was ended by this signal, or its shell said so."""

    cause: str
    label: str
    suggestion: str
    again: bool = False
    error: str = ""
    text: str = ""
    signal: int = 0
    exclude_node: bool = False


@dataclass(frozen=True)
class Finding:
    cause: str
    label: str
    suggestion: str = ""
    again: bool = False
    line: str = ""  # The line of the output that shows it.
    exclude_node: bool = False


# In this order; the first that fits is taken.
ROWS = (
    Row(causes.SHARED_MEMORY, "out of shared memory", "use fewer data loader workers, or give /dev/shm more room",
        text=r"out of shared memory|insufficient shared memory|unable to (?:mmap|open|write to|allocate)\b.*"
             r"(?:shared memory|/torch_|/dev/shm)|/dev/shm.*No space left|No space left.*/dev/shm"
             r"|killed by signal: Bus error"),
    Row(causes.GPU_OUT_OF_MEMORY, "out of GPU memory",
        "make the batch smaller, accumulate gradients, or use a larger GPU",
        text=r"(?:CUDA|HIP|XPU|MPS backend) out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
             r"|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"
             r"|torch\.(?:cuda\.)?OutOfMemoryError|RESOURCE_EXHAUSTED:.*(?:[Oo]ut of memory|OOM|allocat)"
             r"|ResourceExhaustedError.*OOM"),
    Row(causes.CRASHED, "the GPU reported an uncorrectable memory error", "this node is avoided from now on", True,
        text=r"uncorrectable ECC error|cudaErrorECCUncorrectable|\bXid\b.*: (?:48|79|94|95)\b"
             r"|GPU has fallen off the bus", exclude_node=True),
    Row(causes.COLLECTIVE_TIMEOUT, "a collective operation timed out",
        "look for the rank that fell silent first; the network between the nodes may be at fault", True,
        text=r"Watchdog caught collective operation timeout|NCCL.{0,200}\btime(?:d )?[- ]?out|ncclRemoteError"
             r"|ncclSystemError|Timed out waiting \d+\s?ms for (?:recv|send) operation|RendezvousTimeoutError"
             r"|DistStoreError: (?:Timed out|Socket Timeout|wait timeout)"
             r"|[Gg]loo.{0,200}(?:[Tt]imed out|Connection closed)|[Bb]arrier.{0,80}timed out|wait timeout after \d+ms"),
    Row(causes.IMAGE_REFUSED, "a registry refused the image", "check the image's name and the registry's access",
        text=r"pull access denied|unauthorized: authentication required|denied: requested access to the resource"
             r"|ErrImagePull|ImagePullBackOff|failed to pull.{0,300}\b(?:401|403)\b"
             r"|(?:registry|manifest).{0,200}\b(?:401 Unauthorized|403 Forbidden|manifest unknown)"),
    Row(causes.DISK_FULL, "no space left on the disk", "free space on the node, or keep fewer checkpoints and outputs",
        text=r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]|database or disk is full"
             r"|PytorchStreamWriter failed writing file|ENOSPC"),
    Row(causes.IMPORT_ERROR, "a module could not be imported",
        "add the package to what the environment is made from, or the file to the bundle",
        error=r"^(?:[\w.]*\.)?(?:ModuleNotFoundError|ImportError)\b|^(?:pkg_resources\.)?DistributionNotFound",
        text=r"error while loading shared libraries: \S+|No module named \S+$"),
    Row(causes.DATA_MISSING, "a file is not there", "name it under inputs or volumes, or fix the path",
        error=r"^(?:[\w.]*\.)?(?:FileNotFoundError|NotADirectoryError|DatasetNotFoundError|EntryNotFoundError"
              r"|RepositoryNotFoundError)\b|No such file or directory|NoSuchKey|NoSuchBucket"
              r"|404 Client Error|HTTP Error 404",
        text=r"can't open file .*No such file or directory"),
    Row(causes.PERMISSION_DENIED, "access to a service or bucket was denied",
        "check the token or keys that the job was given",
        error=r"\b40[13] Client Error|HTTP Error 40[13]\b|GatedRepoError|AccessDenied\b|ExpiredToken|NoCredentials"
              r"|SignatureDoesNotMatch|InvalidAccessKeyId|\b(?:401 Unauthorized|403 Forbidden)\b"),
    Row(causes.PERMISSION_DENIED, "access to a file was denied",
        "check the file's owner; ranks run as the agent's user",
        error=r"^(?:[\w.]*\.)?PermissionError\b|Permission denied|Operation not permitted"),
    Row(causes.NOT_A_NUMBER, "a value became NaN", "lower the learning rate, clip the gradients, or look at the data",
        error=r"\b(?:nan|NaNs?|non-?finite)\b|FloatingPointError|infinity or a value too large",
        text=r"[Ll]oss (?:is|=|:|became) (?:nan|inf)\b.{0,60}(?:stop|abort|exit)|[Ss]topping.{0,60}\b(?:nan|NaN)\b"),
    Row(causes.SYNTAX_ERROR, "the script has a syntax error", "fix the line that is shown",
        error=r"^(?:SyntaxError|IndentationError|TabError)\b"),
    Row(causes.OUT_OF_MEMORY, "out of memory", "request more memory, or use a smaller batch", True,
        error=r"^(?:[\w.]*\.)?_?(?:Array)?MemoryError\b|Cannot allocate memory|Unable to allocate .* for an array",
        text=r"std::bad_alloc|DefaultCPUAllocator: (?:can't|not enough memory)|\[Errno 12\]"
             r"|oom-kill|Out of memory: Killed|DataLoader worker \(pid\(?s?\)? .*killed by signal: Killed"),
    Row(causes.USER_CODE, "a service could not be reached",
        "see whether it is up, and whether the node may reach it", True,
        error=r"^(?:[\w.]*\.)?Connection(?:Refused|Reset|Aborted)?Error\b|Connection refused|Max retries exceeded"
              r"|Name or service not known|Temporary failure in name resolution|Network is unreachable"
              r"|^(?:[\w.]*\.)?(?:ConnectTimeout|ReadTimeout|TimeoutError)\b"),
    Row(causes.USER_CODE, "too many files are open", "close what is done with, or raise limits.open_files",
        error=r"Too many open files|\[Errno 24\]"),
    Row(causes.USER_CODE, "an address is in use already",
        "let the system choose the port (0), or use MASTER_PORT", True,
        error=r"Address already in use|EADDRINUSE"),
    Row(causes.USER_CODE, "the GPU stopped at an assertion",
        "an index may be out of range; CUDA_LAUNCH_BLOCKING=1 shows where",
        text=r"device-side assert triggered"),
    Row(causes.USER_CODE, "the packages do not fit this GPU or its driver", "use a build for this GPU and its driver",
        text=r"no kernel image is available for execution|CUDA driver version is insufficient"
             r"|driver on your system is too old"),
    Row(causes.SHARED_MEMORY, "a bus error, most often shared memory that ran out",
        "use fewer data loader workers, or give /dev/shm more room", signal=7),
    Row(causes.CRASHED, "a segmentation fault in native code",
        "look at the stack above; check that packages fit each other",
        True, signal=11),
    Row(causes.CRASHED, "an instruction that this processor does not have", "use packages that were built for it",
        signal=4),
    Row(causes.CRASHED, "native code gave up (abort)", "the lines before the abort say why", True, signal=6),
    Row(causes.CRASHED, "an arithmetic error in native code", "look for a division by zero", True, signal=8),
)  # fmt: skip

# Exceptions that only pass on what went wrong elsewhere: the one before them is asked.
WRAPPERS = re.compile(r"^(?:[\w.]*\.)?(?:ChildFailedError|CalledProcessError|ProcessRaisedException"
                      r"|ProcessExitedException|SystemExit|RayTaskError|HydraException|BrokenProcessPool)"
                      r"\b")  # fmt: skip
# Exceptions that name no kind: the lines around them are asked too.
VAGUE = re.compile(
    r"^(?:[\w.]*\.)?(?:RuntimeError|Exception|OSError|IOError|SystemError|InternalError|\w*XlaRuntimeError"
    r"|DistBackendError|DistStoreError|DistNetworkError|DistError|OutOfMemoryError|AcceleratorError"
    r"|ResourceExhaustedError|RendezvousTimeoutError|KeyboardInterrupt)\b"
)
EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?::|$)")
BARE_ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)(?::|$)")
TRACEBACK = "Traceback (most recent call last):"
PREFIX = re.compile(r"^(?:\[(?:rank|default)?\s?\d+\](?::|\s)\s?|\(\w+ pid=\d+[^)]*\)\s)")
# What a terminal would obey and a reader need not see: colours, titles, links, and other control characters.
ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|[\x00-\x08\x0b-\x1f\x7f]"
)
OF_MPI = re.compile(r"^headway: rank (\d+) ended with exit code \d+$")  # Told by launch/mpi.py, behind all else.
_compiled: dict[str, re.Pattern[str]] = {}


def find(exit_code: int | None, signal: int | None, tail: str) -> Finding | None:
    """The first row that fits how a rank ended and what it said last; None where nothing is known about it."""
    lines = clean(tail)
    number = signal if signal is not None else _shell_signal(exit_code)
    began, at = last_error(lines)
    if number and at >= 0 and len(lines) - at > FRESH_LINES:
        began, at = -1, -1
    error = lines[at] if at >= 0 else ""
    near = (lines[at + 1 :] if error else lines)[-NEAR_END_LINES:]
    if error and VAGUE.match(error):
        near = lines[max(began, 0) :]
    for row in ROWS:
        line = _shown(row, error, near)
        if line or (row.signal and row.signal == number):
            return Finding(row.cause, row.label, row.suggestion, row.again, line, row.exclude_node)
    return None


def _shown(row: Row, error: str, near: Iterable[str]) -> str:
    """The line in which this row shows itself; empty where it does not."""
    if error and ((row.error and _search(row.error, error)) or (row.text and _search(row.text, error))):
        return error
    if row.text:
        for line in near:
            if _search(row.text, line):
                return line
    return ""


def _search(pattern: str, line: str) -> bool:
    found = _compiled.get(pattern)
    if found is None:
        found = _compiled[pattern] = re.compile(pattern)
    return found.search(line) is not None


def clean(tail: str) -> list[str]:
    """The lines without colours and without the rank that launchers write before them."""
    return [PREFIX.sub("", ANSI.sub("", line.rstrip()[:LINE_CHARS_MAX])) for line in tail.splitlines() if line.strip()]


def last_error(lines: list[str]) -> tuple[int, int]:
    """Where the last exception is (its traceback's first line, its own line); -1 for none.

    It is the line after a traceback's frames, or one that looks like it. One that passes on another gives way to it.
    """
    found, wrapper, began = (-1, -1), (-1, -1), -1
    for index, line in enumerate(lines):
        if line.startswith(TRACEBACK):
            began = index
        elif line.startswith((" ", "\t")):
            continue
        elif (began >= 0 and EXCEPTION.match(line)) or BARE_ERROR.match(line):
            if WRAPPERS.match(line):
                wrapper = (began, index)
            else:
                found = (began if began >= 0 else index, index)
            began = -1
    return found if found[1] >= 0 else wrapper


def _shell_signal(exit_code: int | None) -> int:
    number = (exit_code or 0) - SHELL_BASE
    return number if number in SIGNAL_NAMES else 0


def said_last(tail: str) -> str:
    """What a rank that failed said of it: its last exception if that is not long ago, else its last line."""
    lines = [line for line in clean(tail) if not OF_MPI.match(line)]
    _, at = last_error(lines)
    if at >= 0 and len(lines) - at <= FRESH_LINES:
        return lines[at].strip()
    return lines[-1].strip() if lines else ""


def failing_rank(tail: str) -> int | None:
    """The rank that mpirun saw failing, where it is mpirun that we started."""
    found = OF_MPI.match((clean(tail[-LINE_CHARS_MAX:]) or [""])[-1])
    return int(found[1]) if found else None
