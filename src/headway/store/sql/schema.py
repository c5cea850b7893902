"""The tables, and the revision that they are at. Migrations that lead here are in migrations/.

What belongs to a job hangs on its number (`jobs.seq`), not on its id: neighbours in time are then neighbours on disk,
and a batch touches few pages. JSON is kept as text. Columns that nobody writes yet have constant defaults. The tables
of features are made from their rows (tables.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

REVISION = "r0012"
KNOWN_REVISIONS = frozenset(
    {"r0001", "r0002", "r0003", "r0005", "r0004", "r0006", "r0007", "r0008", "r0009", "r0010", "r0011", REVISION}
)

metadata = sa.MetaData()

# SQLite makes a column the row's own number only if its type is spelled INTEGER; it holds 64 bits all the same.
INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# Ids are searched by prefix, which a range can do only where characters sort by their code.
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _text(name: str, default: str = "", type_: sa.types.TypeEngine[Any] | None = None) -> sa.Column[Any]:
    return sa.Column(name, type_ or sa.Text(), nullable=False, server_default=default)


def _int(name: str, default: int = 0) -> sa.Column[Any]:
    return sa.Column(name, INT, nullable=False, server_default=str(default))


def _float(name: str, default: float = 0.0) -> sa.Column[Any]:
    return sa.Column(name, sa.Double(), nullable=False, server_default=str(default))


def _maybe(type_: sa.types.TypeEngine[Any], *names: str) -> Iterable[sa.Column[Any]]:
    return [sa.Column(name, type_, nullable=True) for name in names]


def _key(name: str, type_: sa.types.TypeEngine[Any] = INT) -> sa.Column[Any]:
    return sa.Column(name, type_, primary_key=True, autoincrement=False)


_STEPS = ("resumed_step", "seen_step", "committed_step")

jobs = sa.Table(
    "jobs",
    metadata,
    _key("seq"),
    sa.Column("id", ID, nullable=False, unique=True),
    _int("version"),
    _text("state", "queued"),
    _int("attempt"),  # Number of the newest; 0 before the first.
    _text("project", "default"),
    _text("user"),
    _text("queue", "default"),
    _text("pool"),
    _int("priority"),
    _text("name"),
    _text("spec", "{}"),
    _float("submitted_at"),
    *_maybe(sa.Text(), "cause"),
    _text("detail"),
    _int("retries_user"),
    _int("retries_platform"),
    _int("retries_capacity"),
    _float("not_before"),
    *_maybe(sa.Double(), "stop_by", "grace_s", "ended_at"),
    _text("avoid", "[]"),
    *_maybe(sa.Text(), "retry_of", "array_id"),
    *_maybe(INT, "array_index"),
    _int("quick_ends"),
    _text("losses", "{}"),
)
sa.Index("ix_jobs_state", jobs.c.state, jobs.c.seq)
sa.Index("ix_jobs_project", jobs.c.project, jobs.c.seq)
sa.Index("ix_jobs_name", jobs.c.name, jobs.c.seq)
# Partial in SQLite alone, which else rewrites the entry at each change. Naming PostgreSQL here would load its dialect.
sa.Index("ix_jobs_ended", jobs.c.ended_at, sqlite_where=jobs.c.ended_at.is_not(None))

sa.Index("ix_jobs_array", jobs.c.array_id, jobs.c.state, jobs.c.seq, sqlite_where=jobs.c.array_id.is_not(None))

sa.Index("ix_jobs_retry", jobs.c.retry_of, sqlite_where=jobs.c.retry_of.is_not(None))

# The tags of descriptions, to find jobs by. A value may be long: it is no part of the index.
job_tags = sa.Table(
    "job_tags",
    metadata,
    _key("job"),
    _key("key", ID),
    _text("value"),
    sqlite_with_rowid=False,
)
sa.Index("ix_job_tags_key", job_tags.c.key, job_tags.c.job)

attempts = sa.Table(
    "attempts",
    metadata,
    _key("job"),
    _key("number"),
    _float("placed_at"),
    *_maybe(sa.Double(), "started_at", "ended_at"),
    *_maybe(sa.Text(), "cause"),
    _text("detail"),
    *_maybe(INT, "exit_code", *_STEPS),
    *_maybe(sa.Double(), "committed_at"),
    *_maybe(INT, "first_step"),
    *_maybe(sa.Double(), "seen_at"),
    sqlite_with_rowid=False,
)

tasks = sa.Table(
    "tasks",
    metadata,
    _key("job"),
    _key("attempt"),
    _key("index"),
    _text("node"),
    _text("gpus", "[]"),
    _text("phase", "placed"),
    _text("address"),
    _int("port"),
    *_maybe(sa.Text(), "outcome"),
    *_maybe(INT, *_STEPS),
    sqlite_with_rowid=False,
)

nodes = sa.Table(
    "nodes",
    metadata,
    _key("id", ID),
    _text("pool"),
    _float("cpus"),
    _int("memory_bytes"),
    _int("gpus"),
    _text("boot_id"),
    _int("agent_epoch"),
    _text("agent_version"),
    _text("address"),
    _text("image"),
    _text("zone"),
    _text("kind", "on-demand"),
    _text("labels", "{}"),
    *_maybe(sa.Double(), "available_until"),
    _int("cordoned"),
    _float("joined_at"),
    *_maybe(sa.Double(), "gone_at"),
    _int("draining"),
)

events = sa.Table(
    "events",
    metadata,
    _key("seq"),
    _int("job_seq"),  # 0: about no job, or about one that is forgotten.
    _text("job"),
    _int("attempt"),
    _text("kind"),
    _float("at"),
    _text("data", "{}"),
)
sa.Index("ix_events_job", events.c.job_seq, events.c.seq)

_STREAM = ("job", "attempt", "task", "rank")

log_ranges = sa.Table(
    "log_ranges",
    metadata,
    *(_key(name) for name in _STREAM),
    _key("stream", ID),
    _key("start"),
    _int("end"),
    _text("key", type_=ID),
    _int("key_offset"),
    _float("at"),
    *_maybe(INT, "crc32"),  # Of these bytes; NULL where nobody told it.
    _text("times"),
    sqlite_with_rowid=False,
)
sa.Index("ix_log_ranges_key", log_ranges.c.key)

# Kept apart from the ranges, so that dropping ranges does not move the end.
log_ends = sa.Table(
    "log_ends",
    metadata,
    *(_key(name) for name in _STREAM),
    _key("stream", ID),
    _int("end"),
    sqlite_with_rowid=False,
)

checkpoints = sa.Table(
    "checkpoints",
    metadata,
    *(_key(name) for name in ("job", "attempt", "task", "step")),
    _text("how"),
    _text("key", type_=ID),
    _int("bytes"),
    _int("files"),
    _float("at"),
    _text("metrics", "{}"),
    _text("state", "committed"),
    _int("pinned"),
    _text("unit", "step"),
    _text("found"),
    _int("sharded"),
    _text("savers", "[]"),
    _text("covers", "[]"),
    _int("late"),
    _int("beside"),
    sqlite_with_rowid=False,
)
sa.Index("ix_checkpoints_key", checkpoints.c.key)

artifacts = sa.Table(
    "artifacts",
    metadata,
    *(_key(name) for name in ("job", "attempt", "task")),
    _key("path", ID),
    _int("size"),
    _text("sha256"),
    _text("keys", "[]"),
    _float("at"),
    sqlite_with_rowid=False,
)

# What a job needs beyond its own rows: its bundle, the jobs whose checkpoints it began from.
uses = sa.Table(
    "uses",
    metadata,
    _key("job"),
    _key("kind", ID),
    _key("name", ID),
    sqlite_with_rowid=False,
)
sa.Index("ix_uses_name", uses.c.kind, uses.c.name)

submit_keys = sa.Table(
    "submit_keys",
    metadata,
    _key("key", ID),
    _text("jobs", "[]"),
    _text("digest"),
    _float("at"),
)

# One row each. Whoever writes locks the counters first: so commits have one order, and numbers follow it without gaps.
counters = sa.Table("counters", metadata, _key("one"), _int("event_seq"), _int("job_seq"))
leader = sa.Table(
    "leader",
    metadata,
    _key("one"),
    _text("server"),
    _int("epoch"),
    _float("until"),
    _text("address"),
    _text("extra", "{}"),
)

servers = sa.Table(
    "servers",
    metadata,
    _key("name", ID),
    *(_text(name) for name in ("address", "version", "host")),
    _int("pid"),
    _text("storage"),
    _float("started_at"),
    _float("seen_at"),
)

# Where the objects are, and were before.
storages = sa.Table(
    "storages",
    metadata,
    _key("turn"),
    *(_text(name) for name in ("id", "copy", "place")),
    _float("since"),
)

pools = sa.Table(
    "pools",
    metadata,
    _key("name", ID),
    _text("engine"),
    _int("nodes_min"),
    _int("nodes_max", 1),
    _text("kind", "on-demand"),
    _float("price_per_hour"),
    _float("lease_s", 1800.0),
    _float("idle_s", 600.0),
    _text("options", "{}"),
    _int("version"),
    *_maybe(sa.Text(), "shape"),
    _text("gpu_type"),
    _text("zone"),
    _text("labels", "{}"),
    _text("state", "open"),
)

# Their words as one JSON text each: nobody searches in them, and the leader holds all of them in memory.
queues = sa.Table("queues", metadata, _key("name", ID), _text("body", "{}"))
licences = sa.Table("licences", metadata, _key("name", ID), _int("count"))
use_accounts = sa.Table(
    "use_accounts",
    metadata,
    _key("queue", ID),
    _key("project", ID),
    _key("user", ID),
    _float("amount"),
    _float("at"),
)

orders = sa.Table(
    "orders",
    metadata,
    _key("id", ID),
    _text("pool"),
    _text("engine"),
    _text("state", "asked"),
    _int("nodes", 1),
    _text("shape", "{}"),
    _text("options", "{}"),
    _text("detail"),
    _float("asked_at"),
    *_maybe(sa.Double(), "filled_at", "released_at"),
    _int("version"),
)

# --- accounts ---
users = sa.Table(
    "users",
    metadata,
    _key("name", ID),
    _text("email", type_=ID),
    _text("subject", type_=ID),  # Who the identity provider says it is: issuer and subject.
    _int("admin"),
    _text("created_by"),
    _float("created_at"),
)
projects = sa.Table(
    "projects",
    metadata,
    _key("name", ID),
    _text("created_by"),
    _float("created_at"),
    _text("allowed"),  # References to secrets kept elsewhere, one a line.
)
memberships = sa.Table(
    "memberships",
    metadata,
    _key("project", ID),
    _key("user", ID),
    _text("role", "viewer"),
)
tokens = sa.Table(
    "tokens",
    metadata,
    _key("prefix", ID),
    _text("hash", type_=ID),
    _text("kind", "personal"),
    _text("label"),
    _text("user"),  # Of a personal token; of a service token, who made it.
    _text("project"),  # Of a service token.
    _text("role"),
    _float("created_at"),
    *_maybe(sa.Double(), "expires_at", "revoked_at", "used_at"),
)
audit = sa.Table(
    "audit",
    metadata,
    _key("seq"),
    _float("at"),
    _text("actor"),
    _text("kind"),
    _text("token"),
    _text("what"),
    _text("target"),
    _text("project"),
    _text("outcome", "done"),
    _text("detail"),
)
# What all servers of this store share, by name. No secrets: these are in the key file.
shared_keys = sa.Table("shared_keys", metadata, _key("name", ID), _text("key"))

# Of Alembic's own making; named here so that an empty database can be made without it.
revision = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), nullable=False))
sa.PrimaryKeyConstraint(revision.c.version_num, name="alembic_version_pkc")


def create(connection: sa.Connection) -> None:
    """Make all tables in an empty database, as the migrations would."""
    metadata.create_all(connection, checkfirst=False)
    for table in (counters, leader):
        connection.execute(table.insert().values(one=1))
    revision.create(connection, checkfirst=True)
    connection.execute(revision.insert().values(version_num=REVISION))
