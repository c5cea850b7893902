"""The shapes of requests and answers, for the OpenAPI schema. Checking itself is done by core/spec/job.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headway.control.views.selection import WORDS as SELECTING
from headway.core.access.actor import ROLES
from headway.core.job.causes import TABLE
from headway.core.model import State
from headway.core.spec.job import WORDS
from headway.core.spec.pool import KEYS as POOL_KEYS
from headway.core.spec.queue import KEYS as QUEUE_KEYS
from headway.core.spec.words import NUMBER, TEXT, WHOLE, Schema, array, obj
from headway_wire.sync import HOW

ANYTHING: Schema = {"type": "object"}
TIME: Schema = {"type": ["number", "null"], "description": "seconds since 1970"}
ANY_KIND: Schema = {"type": ["number", "string", "boolean", "object", "array", "null"]}


def words(known: Mapping[str, str], kinds: Mapping[str, Schema]) -> Schema:
    """An object of these words, each with what it says; those of no known kind may be anything."""
    properties = {key: {**kinds.get(key, ANY_KIND), "description": says} for key, says in known.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


SPEC: Schema = WORDS.schema()
_STATE: Schema = {"enum": [state.value for state in State]}
_CAUSE: Schema = {"enum": [*(cause.value for cause in TABLE), None]}
SUMMARY: Schema = obj(
    ("id", "name", "state", "sentence"),
    id=TEXT,
    seq=WHOLE,
    name=TEXT,
    state=_STATE,
    cause=_CAUSE,
    detail=TEXT,
    sentence=TEXT,
    project=TEXT,
    user=TEXT,
    queue=TEXT,
    pool=TEXT,
    priority=WHOLE,
    nodes=WHOLE,
    attempt=WHOLE,
    exit_code={"type": ["integer", "null"]},
    submitted_at=TIME,
    started_at=TIME,
    ended_at=TIME,
    tags={"type": "object"},
)
LOSS: Schema = obj(steps=WHOLE, seconds=NUMBER, money={"type": ["number", "null"]})
CHECKPOINT: Schema = obj(
    ("step", "attempt"),
    step=WHOLE,
    unit={**TEXT, "description": "what its step counts: step, epoch, or save where the job does not tell"},
    attempt=WHOLE,
    how={"enum": list(HOW)},
    bytes=WHOLE,
    files=WHOLE,
    at=TIME,
    metrics={"type": "object"},
    found={**TEXT, "description": "where in its working directory the job saves, and whose habit that is"},
    tasks={**array(WHOLE), "description": "those that saved it"},
    sharded={"type": "boolean", "description": "each of them saved a share of one whole"},
    complete={"type": "boolean"},
    lacks={**TEXT, "description": "why it is none: which tasks have not saved it, or cannot be matched"},
    pinned={"type": "boolean"},
    state={"enum": ["committed", "set_aside"]},
    resumable={"type": "boolean"},
)
_PROGRESS: Schema = obj(
    seed=WHOLE,
    checkpoint={"anyOf": [CHECKPOINT, {"type": "null"}]},
    checkpoint_lacks={**TEXT, "description": "why what its tasks saved since is not a checkpoint"},
    account=obj(unit=TEXT, total=LOSS, by_cause={"type": "object", "additionalProperties": LOSS}, attempts=array(LOSS)),
    artifacts=obj(files=WHOLE, bytes=WHOLE),
)
_REQUEST: Schema = {**TEXT, "description": "the call that submitted it; events and the server's log repeat it"}
_ARGV: Schema = {**array(TEXT), "description": "the command as its ranks are given it: parameters in their places"}
_DETAIL: Schema = {
    "allOf": [
        SUMMARY,
        obj(spec=SPEC, argv=_ARGV, attempts=array({"type": "object"}), hint=TEXT, request=_REQUEST),
        _PROGRESS,
    ]
}


def event_schema(kinds: Iterable[str]) -> Schema:
    return obj(
        ("seq", "kind", "at"),
        seq=WHOLE,
        kind={"enum": list(kinds)},
        at=NUMBER,
        job=TEXT,
        attempt=WHOLE,
        data={"type": "object"},
        request=TEXT,
    )


PROBLEM: Schema = obj(type=TEXT, title=TEXT, status=WHOLE, detail=TEXT, hint=TEXT)


def body(schema: Schema) -> Schema:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def answers(status: int, schema: Schema, says: str, media: str = "application/json") -> dict[int | str, Schema]:
    return {
        status: {"description": says, "content": {media: {"schema": schema}}},
        "default": {"description": "a problem", "content": {"application/problem+json": {"schema": PROBLEM}}},
    }


_FORCE: Schema = {"type": "boolean", "description": "accept it though nothing here could ever run it"}
_FOR: Schema = {"type": ["string", "null"], "description": "whose it shall be; only admins of the server say so"}
JOB = body(obj(("job",), job=SPEC, key=TEXT, force=_FORCE, user=_FOR))
BATCH = body(obj(("jobs",), jobs=array(SPEC), key=TEXT, force=_FORCE, user=_FOR))
STOP = body(obj(grace_s={"type": ["number", "null"]}, drop_files={"type": "boolean"}))
ARRAY: Schema = obj(
    ("id", "count"), id=TEXT, name=TEXT, count=WHOLE, states={"type": "object"}, at_once=WHOLE, sentence=TEXT
)
SELECTION = body(
    obj(
        ("which",),
        which=words(SELECTING, {}),
        before=WHOLE,
        key=TEXT,
        grace_s={"type": ["number", "null"]},
        drop_files={"type": "boolean"},
        tags={"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    )
)
MADE = answers(201, obj(job=SUMMARY, array=ARRAY), "the job; of an array, its first one")
BATCH_MADE = answers(201, obj(ids=array(TEXT)), "the ids, in the order of the request")
JOBS = answers(200, obj(jobs=array(SUMMARY), next={"type": ["integer", "null"]}), "a page")
DETAIL = answers(200, _DETAIL, "the job")
WHY = answers(200, obj(job=TEXT, state=_STATE, sentence=TEXT, evidence={"type": "object"}), "the reason")
WAITED = answers(200, obj(job=_DETAIL, ended={"type": "boolean"}), "the job, ended or not")
RAW = answers(200, {"type": "string", "format": "binary"}, "bytes", "application/octet-stream")
ANY = answers(200, {"type": "object"}, "the answer")

_GROUPS = ("code", "environment", "params", "spec", "hardware", "results", "course")
_ARTIFACT: Schema = obj(attempt=WHOLE, task=WHOLE, path=TEXT, size=WHOLE, sha256=TEXT, at=TIME)
CHECKPOINTS = answers(200, obj(checkpoints=array(CHECKPOINT)), "the checkpoints, the best to resume from first")
_PART = obj(size=WHOLE, sha256=TEXT)
_FILE = obj(("task", "path", "size"), task=WHOLE, path=TEXT, size=WHOLE, parts=array(_PART))
CHECKPOINT_FILES = answers(200, obj(files=array(_FILE)), "its files")
ARTIFACTS = answers(200, obj(artifacts=array(_ARTIFACT)), "the files")
DIFFERENCE = answers(200, obj((), **dict.fromkeys(_GROUPS, ANYTHING)), "what differs, by group")
MISSING = answers(200, obj(missing=array(TEXT)), "the contents that are not here")
PIN = body(obj(pinned={"type": "boolean"}))
_VALUES: Schema = {"type": "object", "description": "other values of its parameters, by name"}
_CHANGES: Schema = {
    "type": "object",
    "description": "other words of its description: groups are changed key by key, null takes away",
}
FORK = body(obj(step={"type": ["integer", "null"]}, set=_VALUES, changes=_CHANGES, key=TEXT))
RERUN = body(obj(set=_VALUES, changes=_CHANGES, key=TEXT))
RETRY = body(obj(key=TEXT))
WANTED = body(obj(("files",), files=array(TEXT)))
BUNDLE = body(obj(("files",), files=array({"type": "object"}), git={"type": ["object", "null"]}))

# --- what operators set ---
QUEUE: Schema = words(QUEUE_KEYS, {})
POOL: Schema = words(POOL_KEYS, {})
CHANGE = body(words(WORDS.changeable, {key: entry.schema for key, entry in WORDS.all.items()}))
QUEUES = answers(
    200, obj(queues=array(obj(("name",), name=TEXT, rules=QUEUE, queued=WHOLE, active=WHOLE))), "the queues"
)
POOLS = answers(
    200,
    obj(
        pools=array(
            obj(("name",), name=TEXT, rules=POOL, nodes=WHOLE, open=WHOLE, tasks=WHOLE, free={"type": "object"})
        )
    ),
    "the pools",
)
LICENCES = answers(200, obj(licences={"type": "object", "additionalProperties": WHOLE}), "how many there are of each")
ARRAYS = answers(200, ARRAY, "how many of its jobs are in which state")
PLAN = body(obj(("job",), job=SPEC))

# --- accounts ---
_MAYBE_TEXT: Schema = {"type": ["string", "null"]}
_MAYBE_TRUE: Schema = {"type": ["boolean", "null"]}
NEW_USER = body(obj(("name",), name=TEXT, email=_MAYBE_TEXT, admin=_MAYBE_TRUE))
USER_CHANGE = body(obj(email=_MAYBE_TEXT, admin=_MAYBE_TRUE))
MEMBER = body(obj(("role",), role={"enum": list(ROLES)}))
REFERENCES = body(obj(("references",), references={"type": "array", "items": TEXT}))
NEW_TOKEN = body(
    obj(
        label=_MAYBE_TEXT,
        user=_MAYBE_TEXT,
        project=_MAYBE_TEXT,
        role={"enum": [*ROLES, None]},
        expires_in_s={"type": ["number", "null"], "description": "null: never"},
    )
)
OIDC_CODE = body(
    obj(
        ("code", "code_verifier", "nonce", "redirect_uri"), code=TEXT, code_verifier=TEXT, nonce=TEXT, redirect_uri=TEXT
    )
)
