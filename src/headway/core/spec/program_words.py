"""What is inside the words of program.py: a record for each with parts; how it is read, shown, and told to nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from headway.core.errors import BadInput
from headway.core.fields import WORD_BYTES_MAX, check_keys, kind_of, one_of, text_bytes, whole
from headway.core.spec.secrets import SecretUse, show_uses
from headway.core.spec.words import (
    AMOUNT,
    FLAG,
    MAYBE_AMOUNT,
    MAYBE_WHOLE,
    TEXT,
    WHOLE,
    Schema,
    array,
    inner_keys,
    obj,
    saying,
)
from headway.core.units import duration_s, size_bytes

DIGEST = re.compile(r"[0-9a-f]{64}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
PARAM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
ENVIRONMENTS = ("uv-lock", "pyproject", "requirements", "pep723", "conda")
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")
ACTIONS = ("label", "stop_retrying", "exclude_node")
SAVED_BY = ("auto", "first", "all")
ENTRIES_MAX = 1000
STDIN_BYTES_MAX = 64 << 10
DIRS_MAX = 20
PLATFORM_MAX = 20
CAPACITY_MAX = 1000
QUICK_MAX = 3
REQUEUE_EXIT_CODE = 99  # With which a job asks to be tried again.
PATTERN_MAX = 500
STAY_S_MAX = 7 * 86400.0
SEED_MAX = 2**32 - 1  # What PYTHONHASHSEED and most generators take.

Value = str | int | float | bool
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Environment:
    """What the interpreter and its packages are made from: a file in the bundle, named by its content."""

    kind: str
    path: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Input:
    """Data that is fetched once per node."""

    name: str
    url: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """Which checkpoints are kept, from where, whose they are, and how a finished one is recognised."""

    keep_last: int = 3
    best_metric: str = ""
    best_mode: str = "min"
    marker: str = ""
    settle_s: float = 10.0
    saved_by: str = "auto"  # Which nodes of a gang have to save before a step counts: found out, the first, or all.
    dirs: tuple[str, ...] = ()  # Kept whole, beside the checkpoint directory; relative to the working directory.


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What beside the number of retries says whether to try again."""

    on_exit_codes: tuple[int, ...] | None = None  # None: any.
    platform_max: int = PLATFORM_MAX  # Losses without a new step in between; so is the next.
    capacity_max: int = CAPACITY_MAX
    quick_max: int = QUICK_MAX  # How often in a row a quick end without a new step is tried again.
    platform_max_per_day: int | None = None  # Losses of a day, whatever lies between them. None: any number.
    capacity_max_per_day: int | None = None


@dataclass(frozen=True, slots=True)
class LogPolicy:
    """What a line in the log means."""

    pattern: str
    label: str
    action: str = "label"


@dataclass(frozen=True, slots=True)
class Limits:
    open_files: int | None = None
    output_bytes: int | None = None
    stalled_s: float | None = None
    pending_s: float | None = None
    pin_cpus: bool = False


@dataclass(frozen=True, slots=True)
class ResumeFrom:
    """A checkpoint of another job, from which the first attempt begins. Without a step: its newest."""

    job: str
    step: int | None = None


# --- what is inside a word ------------------------------------------------------------------------------------------

_MAYBE_CODES: Schema = {"type": ["array", "null"], "items": WHOLE}
ENVIRONMENT = obj(
    ("kind",),
    kind=saying({"enum": list(ENVIRONMENTS)}, "what kind of file it is"),
    path=saying(TEXT, "the file, in the project"),
    digest=saying(TEXT, "the hash of all that enters it; made when it is left out"),
)
INPUT = obj(
    ("url",),
    url=saying(TEXT, "http, https, s3 or file, or an absolute path on the node"),
    sha256=saying(TEXT, "what its content must be"),
)
BEST = obj(
    ("metric",),
    metric=saying(TEXT, "the metric by which one is the best"),
    mode=saying({"enum": ["min", "max"]}, "whether less or more is better"),
)
CHECKPOINT = obj(
    keep_last=saying({**WHOLE, "minimum": 1}, "how many are kept; 3 when left out"),
    keep_best=saying({"anyOf": [BEST, {"type": "null"}]}, "keep the best one too"),
    marker=saying(TEXT, "a file whose presence says that one is finished"),
    settle=saying(AMOUNT, "how long it must lie still to be finished, such as 10s"),
    saved_by=saying({"enum": list(SAVED_BY)}, "which nodes of a gang save"),
    dir=saying({"anyOf": [TEXT, array(TEXT)]}, "where it saves, if not in HEADWAY_CHECKPOINT_DIR"),
)
NOTICE = obj(
    signal=saying({"enum": list(SIGNALS)}, "the signal that tells ranks to save"),
    grace=saying(AMOUNT, "the time between it and the kill; the same as grace"),
)
RETRY = obj(
    max=saying({**WHOLE, "minimum": 0}, "retries after its own failure; the same as retries"),
    on_exit_codes=saying(_MAYBE_CODES, "only after these exit codes; after any, when left out"),
    capacity_max=saying(WHOLE, "how often it may make room without a new step"),
    platform_max=saying(WHOLE, "how often it may lose its machine without a new step"),
    quick_max=saying(WHOLE, "how often in a row a quick end is tried again"),
    capacity_max_per_day=saying(MAYBE_WHOLE, "how often it may make room in a day"),
    platform_max_per_day=saying(MAYBE_WHOLE, "how often it may lose its machine in a day"),
)
POLICY = obj(
    ("pattern", "label"),
    pattern=saying(TEXT, "a regular expression, looked for in each line"),
    label=saying(TEXT, "what to call it"),
    action=saying({"enum": list(ACTIONS)}, "what follows from it"),
)
LIMITS = obj(
    open_files=saying(MAYBE_WHOLE, "how many files a rank may have open"),
    output=saying(MAYBE_AMOUNT, "how much the job may write to its log, such as 1G"),
    stalled_after=saying(MAYBE_AMOUNT, "end it after so long without output or progress, such as 30m"),
    pending=saying(MAYBE_AMOUNT, "the longest time in the queue, such as 2d"),
    pin_cpus=saying(FLAG, "bind each rank to processors of its own"),
)
RESUME = obj(
    ("job",),
    job=saying(TEXT, "the id of the job whose checkpoint it is"),
    step=saying(MAYBE_WHOLE, "its step; the newest, when left out"),
)
ON_FAILURE = obj(("hold",), hold=saying(AMOUNT, "how long its place is kept, such as 30m"))
SECRET = obj(
    ("name",), name=saying(TEXT, "the secret"), file=saying(FLAG, "the variable holds the path of a file with it")
)
SECRETS: Schema = {"anyOf": [{"type": "object", "additionalProperties": {"anyOf": [TEXT, SECRET]}}, array(TEXT)]}


# --- words that are said in two ways --------------------------------------------------------------------------------


def retries_of(raw: Mapping[str, Any]) -> int:
    """How often to try again: `retry.max`, for which `retries` is short."""
    retry = raw.get("retry")
    long = retry.get("max") if isinstance(retry, Mapping) else None
    short = raw.get("retries")
    if long is not None and short is not None and long != short:
        raise BadInput(f"retries: {short} here and {long} in retry.max", "give one of them")
    value = long if long is not None else short
    return whole(value if value is not None else 0, "retries" if long is None else "retry.max", 0, 1000)


def grace_of(raw: Mapping[str, Any]) -> float:
    """The grace of a notice: `notice.grace`, or `grace`, which means the same."""
    notice = raw.get("notice")
    long = notice.get("grace") if isinstance(notice, Mapping) else None
    short = raw.get("grace")
    long_s = None if long is None else duration_s(long, "notice.grace")
    short_s = None if short is None else duration_s(short, "grace")
    if long_s is not None and short_s is not None and long_s != short_s:
        raise BadInput(f'grace: "{short}" here and "{long}" in notice.grace', "give one of them")
    return next((each for each in (long_s, short_s) if each is not None), 30.0)


# --- reading one word -----------------------------------------------------------------------------------------------


def inner_path(value: object, what: str) -> str:
    """A relative path that stays inside whatever it is relative to."""
    path = _text(value, what, 1000)
    parts = path.rstrip("/").split("/")
    if path.startswith("/") or any(part in ("", "..") for part in parts) or "\n" in path:
        raise BadInput(f'{what}: "{path[:80]}" is not a path inside the tree', 'relative, without ".."')
    return "/".join(part for part in parts if part != ".") or "."


def _text(value: object, what: str, most: int, least: int = 1) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{what}: expected a text, found {kind_of(value)}")
    if "\0" in value:
        raise BadInput(f"{what}: contains a NUL byte")
    if not least <= len(value) <= most:
        raise BadInput(f"{what}: {len(value)} characters; {least} to {most} are taken")
    text_bytes(value, what)
    return value


def read_digest(value: object, what: str) -> str:
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise BadInput(f'{what}: "{str(value)[:80]}" is not a sha256', "64 hexadecimal digits in small letters")
    return value


def read_environment(raw: Any, what: str) -> Environment:
    check_keys(raw, inner_keys(ENVIRONMENT), what)
    kind = one_of(raw.get("kind"), f"{what}.kind", ENVIRONMENTS)
    path = inner_path(raw["path"], f"{what}.path") if raw.get("path") else ""
    return Environment(kind, path, read_digest(raw["digest"], f"{what}.digest") if raw.get("digest") else "")


def _named(raw: Any, what: str) -> list[tuple[str, Any]]:
    if not isinstance(raw, Mapping):
        raise BadInput(f"{what}: expected names and values, found {kind_of(raw)}")
    if len(raw) > ENTRIES_MAX:
        raise BadInput(f"{what}: {len(raw):,} entries; at most {ENTRIES_MAX:,} are taken")
    for name in raw:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadInput(f'{what}: "{str(name)[:80]}" is not a usable name', "letters, digits and underscores")
    return list(raw.items())


_FETCHED = ("http", "https", "s3", "file")


def read_inputs(raw: Any, what: str) -> tuple[Input, ...]:
    inputs = []
    for name, value in _named(raw, what):
        where = f"{what}.{name}"
        sha256 = ""
        if isinstance(value, Mapping):
            check_keys(value, inner_keys(INPUT), where)
            sha256 = read_digest(value["sha256"], f"{where}.sha256") if value.get("sha256") else ""
            value = value.get("url")
        url = _text(value, where, 4000)
        if not url.startswith("/") and not re.match(r"[a-z][a-z0-9+.-]*://.", url):
            raise BadInput(f'{where}: "{url[:80]}" is neither a URL nor an absolute path')
        scheme, _, _ = url.partition("://")
        if not url.startswith("/") and scheme not in _FETCHED:
            raise BadInput(f"{where}: {scheme}:// cannot be fetched; {', '.join(_FETCHED)} and absolute paths can")
        if scheme in ("http", "https", "s3"):
            _check_address(url, where)
        inputs.append(Input(name, url, sha256))
    return tuple(inputs)


def _check_address(url: str, where: str) -> None:
    """No node can fetch from an address without a host or a bucket, or with a port that there is not."""
    scheme, _, rest = url.partition("://")
    front = re.split(r"[/?#]", rest, maxsplit=1)[0]
    authority = front.rpartition("@")[2]
    typed = f"{scheme}://{authority}{rest[len(front) :]}"[:80]  # Without a password.
    what = "bucket" if scheme == "s3" else "host"
    if not authority:
        raise BadInput(f'{where}: "{typed}" names no {what}', f"{scheme}://{what.upper()}/…")
    if scheme == "s3":
        return
    try:
        split = urlsplit(f"{scheme}://{authority}")
        host, _ = split.hostname or "", split.port
        host.encode("idna")
    except ValueError as error:
        raise BadInput(f'{where}: "{typed}" is not an address: {error}') from None
    if not host:
        raise BadInput(f'{where}: "{typed}" names no host', f"{scheme}://HOST/…")


def read_volumes(raw: Any, what: str) -> Pairs:
    volumes = []
    for name, value in _named(raw, what):
        path = _text(value, f"{what}.{name}", 4000)
        if not path.startswith("/") or ".." in path.split("/"):
            raise BadInput(f'{what}.{name}: "{path[:80]}" is not an absolute path without ".."')
        volumes.append((name, path))
    return tuple(volumes)


def read_params(raw: Any, what: str) -> tuple[tuple[str, Value], ...]:
    if not isinstance(raw, Mapping):
        raise BadInput(f"{what}: expected names and values, found {kind_of(raw)}")
    if len(raw) > ENTRIES_MAX:
        raise BadInput(f"{what}: {len(raw):,} parameters; at most {ENTRIES_MAX:,} are taken")
    total = 0
    for name, value in raw.items():
        if not isinstance(name, str) or not PARAM_NAME.fullmatch(name):
            raise BadInput(f'{what}: "{str(name)[:80]}" is not a usable name')
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise BadInput(f"{what}.{name}: expected a text, a number or a truth value, found {kind_of(value)}")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise BadInput(f"{what}.{name}: {str(value)[:40]} is too large a number", "quote it")
        if isinstance(value, str):
            total += len(_text(value, f"{what}.{name}", WORD_BYTES_MAX // 4, 0))
    if total > WORD_BYTES_MAX // 4:
        raise BadInput(f"{what}: {total:,} characters; at most {WORD_BYTES_MAX // 4:,} are taken")
    return tuple(raw.items())


def read_checkpoint(raw: Any, what: str) -> CheckpointPolicy:
    check_keys(raw, inner_keys(CHECKPOINT), what)
    best = raw.get("keep_best")
    metric, mode = "", "min"
    if best is not None:
        check_keys(best, inner_keys(BEST), f"{what}.keep_best")
        metric = _text(best.get("metric"), f"{what}.keep_best.metric", 100)
        mode = one_of(best.get("mode", "min"), f"{what}.keep_best.mode", ("min", "max"))
    marker = raw.get("marker") or ""
    if marker and (not isinstance(marker, str) or "/" in marker or len(marker) > 200 or not marker.isprintable()):
        raise BadInput(f'{what}.marker: "{str(marker)[:80]}" is not the name of a file')
    return CheckpointPolicy(
        keep_last=whole(raw.get("keep_last", 3), f"{what}.keep_last", 1, 1_000_000),
        best_metric=metric,
        best_mode=mode,
        marker=marker,
        settle_s=duration_s(raw.get("settle", 10.0), f"{what}.settle"),
        saved_by=one_of(raw.get("saved_by") or "auto", f"{what}.saved_by", SAVED_BY),
        dirs=_dirs(raw.get("dir") or (), f"{what}.dir"),
    )


def _dirs(raw: Any, what: str) -> tuple[str, ...]:
    """One directory, or a list of them, each once."""
    if isinstance(raw, str):
        raw = [raw]
    if not isinstance(raw, list | tuple) or len(raw) > DIRS_MAX:
        raise BadInput(f"{what}: expected a path or at most {DIRS_MAX} of them, found {kind_of(raw)}")
    return tuple(dict.fromkeys(inner_path(each, what) for each in raw))


def read_outputs(raw: Any, what: str) -> tuple[str, ...]:
    if not isinstance(raw, list | tuple) or len(raw) > ENTRIES_MAX:
        raise BadInput(f"{what}: expected a list of paths, found {kind_of(raw)}")
    return tuple(inner_path(each, what) for each in raw)


def read_signal(raw: Any, what: str) -> str:
    check_keys(raw, inner_keys(NOTICE), what)
    return one_of(raw.get("signal", "SIGTERM"), f"{what}.signal", SIGNALS)


def read_retry(raw: Any, what: str) -> RetryPolicy:
    check_keys(raw, inner_keys(RETRY), what)
    codes = raw.get("on_exit_codes")
    if codes is not None:
        if not isinstance(codes, list | tuple) or len(codes) > 255:
            raise BadInput(f"{what}.on_exit_codes: expected a list of exit codes, found {kind_of(codes)}")
        codes = tuple(whole(code, f"{what}.on_exit_codes", 1, 255) for code in codes)

    def most(key: str, default: int | None) -> Any:
        value = raw.get(key, default)
        return None if value is None and default is None else whole(value, f"{what}.{key}", 0, 1_000_000)

    return RetryPolicy(
        on_exit_codes=codes,
        platform_max=most("platform_max", PLATFORM_MAX),
        capacity_max=most("capacity_max", CAPACITY_MAX),
        quick_max=most("quick_max", QUICK_MAX),
        platform_max_per_day=most("platform_max_per_day", None),
        capacity_max_per_day=most("capacity_max_per_day", None),
    )


def read_policies(raw: Any, what: str) -> tuple[LogPolicy, ...]:
    if not isinstance(raw, list | tuple) or len(raw) > 100:
        raise BadInput(f"{what}: expected a list of policies, found {kind_of(raw)}")
    policies = []
    for each in raw:
        check_keys(each, inner_keys(POLICY), what)
        pattern = _text(each.get("pattern"), f"{what}.pattern", PATTERN_MAX)
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise BadInput(f'{what}.pattern: "{pattern[:80]}" is not a regular expression: {error}') from None
        action = one_of(each.get("action", "label"), f"{what}.action", ACTIONS)
        policies.append(LogPolicy(pattern, _text(each.get("label"), f"{what}.label", 100), action))
    return tuple(policies)


def read_limits(raw: Any, what: str) -> Limits:
    check_keys(raw, inner_keys(LIMITS), what)

    def maybe(key: str, reader: Callable[[Any, str], Any]) -> Any:
        return None if raw.get(key) is None else reader(raw[key], f"{what}.{key}")

    pin = raw.get("pin_cpus", False)
    if not isinstance(pin, bool):
        raise BadInput(f'{what}.pin_cpus: "{str(pin)[:80]}" is neither true nor false')
    return Limits(
        open_files=maybe("open_files", lambda value, where: whole(value, where, 16, 2**31 - 1)),
        output_bytes=maybe("output", size_bytes),
        stalled_s=maybe("stalled_after", _longer_than_nothing),
        pending_s=maybe("pending", _longer_than_nothing),
        pin_cpus=pin,
    )


def _longer_than_nothing(value: Any, what: str) -> float:
    seconds = duration_s(value, what)
    if seconds <= 0:
        raise BadInput(f'{what}: "{value}" is not longer than nothing', "leave it out for no limit")
    return seconds


def read_stay(raw: Any, what: str) -> float:
    """`{hold: 30m}`, or in one word `hold 30m`."""
    if isinstance(raw, str):
        word, _, time = raw.strip().partition(" ")
        raw = {word: time.strip()}
    check_keys(raw, inner_keys(ON_FAILURE), what)
    seconds = _longer_than_nothing(raw.get("hold"), f"{what}.hold")
    if seconds > STAY_S_MAX:
        raise BadInput(f"{what}.hold: {raw['hold']} is too long", f"at most {STAY_S_MAX / 86400:g} days")
    return seconds


def read_resume(raw: Any, what: str) -> ResumeFrom:
    check_keys(raw, inner_keys(RESUME), what)
    step = raw.get("step")
    return ResumeFrom(
        _text(raw.get("job"), f"{what}.job", 100), None if step is None else whole(step, f"{what}.step", 0, 2**62)
    )


def read_stdin(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{what}: expected a text, found {kind_of(value)}")
    if "\0" in value:
        raise BadInput(f"{what}: contains a NUL byte")
    size = text_bytes(value, what)
    if size > STDIN_BYTES_MAX:
        raise BadInput(f"{what}: {size:,} bytes; at most {STDIN_BYTES_MAX:,} are taken", "bring it under inputs")
    return value


def read_seed(value: Any, what: str) -> int:
    return whole(value, what, 0, SEED_MAX)


# --- showing one word -----------------------------------------------------------------------------------------------


def show_environment(environment: Environment, spec: Any) -> dict[str, Any]:
    return {"kind": environment.kind, "path": environment.path, "digest": environment.digest}


def show_inputs(inputs: tuple[Input, ...], spec: Any) -> dict[str, Any]:
    return {each.name: {"url": each.url, "sha256": each.sha256} for each in inputs}


def show_pairs(pairs: Any, spec: Any) -> dict[str, Any]:
    return dict(pairs)


def show_list(entries: Any, spec: Any) -> list[Any]:
    return list(entries)


def show_checkpoint(keeping: CheckpointPolicy, spec: Any) -> dict[str, Any]:
    best = {"metric": keeping.best_metric, "mode": keeping.best_mode} if keeping.best_metric else None
    return {
        "keep_last": keeping.keep_last,
        "keep_best": best,
        "marker": keeping.marker,
        "settle": keeping.settle_s,
        "saved_by": keeping.saved_by,
        "dir": keeping.dirs[0] if len(keeping.dirs) == 1 else list(keeping.dirs),
    }


def show_notice(signal: str, spec: Any) -> dict[str, Any]:
    return {"signal": signal, "grace": spec.grace_s}


def show_retry(again: RetryPolicy, spec: Any) -> dict[str, Any]:
    return {
        "max": spec.retries_max,
        "on_exit_codes": None if again.on_exit_codes is None else list(again.on_exit_codes),
        "capacity_max": again.capacity_max,
        "platform_max": again.platform_max,
        "quick_max": again.quick_max,
        "capacity_max_per_day": again.capacity_max_per_day,
        "platform_max_per_day": again.platform_max_per_day,
    }


def show_policies(policies: tuple[LogPolicy, ...], spec: Any) -> list[dict[str, Any]]:
    return [{"pattern": each.pattern, "label": each.label, "action": each.action} for each in policies]


def show_limits(limits: Limits, spec: Any) -> dict[str, Any]:
    return {
        "open_files": limits.open_files,
        "output": limits.output_bytes,
        "stalled_after": limits.stalled_s,
        "pending": limits.pending_s,
        "pin_cpus": limits.pin_cpus,
    }


def show_resume(resume: ResumeFrom, spec: Any) -> dict[str, Any]:
    return {"job": resume.job, "step": resume.step}


def show_secrets(uses: tuple[SecretUse, ...], spec: Any) -> Any:
    return show_uses(uses)


def show_stay(stay_s: float, spec: Any) -> dict[str, Any]:
    return {"hold": stay_s}


# --- telling nodes --------------------------------------------------------------------------------------------------


def given(**words: Any) -> dict[str, Any]:
    """Those that say something."""
    return {word: value for word, value in words.items() if value}


def tell_inputs(inputs: tuple[Input, ...], spec: Any) -> dict[str, Any]:
    return {each.name: given(url=each.url, sha256=each.sha256) for each in inputs}


def tell_checkpoint(keeping: CheckpointPolicy, spec: Any) -> dict[str, Any]:
    return {
        **given(marker=keeping.marker, dirs=list(keeping.dirs)),
        **({} if keeping.saved_by == "auto" else {"saved_by": keeping.saved_by}),
        "settle_s": keeping.settle_s,
    }


def tell_limits(limits: Limits, spec: Any) -> dict[str, Any]:
    return given(
        open_files=limits.open_files,
        output_bytes=limits.output_bytes,
        stalled_s=limits.stalled_s,
        pin_cpus=limits.pin_cpus,
    )


def tell_secrets(uses: tuple[SecretUse, ...], spec: Any) -> dict[str, Any]:
    """By name only: the agent asks for the values when it is about to need them."""
    return given(
        env={use.variable: use.name for use in uses if not use.as_file},
        files={use.variable: use.name for use in uses if use.as_file},
    )


def tell_stay(stay_s: float, spec: Any) -> dict[str, Any]:
    return {"s": stay_s, "not": [REQUEUE_EXIT_CODE, *(spec.progress.again.on_exit_codes or ())]}
