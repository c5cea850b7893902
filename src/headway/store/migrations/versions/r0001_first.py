"""The first layout: jobs with attempts and tasks, nodes, events, the log index, the leader."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0001"
down_revision = None
branch_labels = None
depends_on = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    _jobs()
    _attempts()
    _nodes()
    _orders()
    _events()
    _logs()
    _server()


def downgrade() -> None:
    raise NotImplementedError("there is nothing before the first layout")


def _jobs() -> None:
    over = sa.text("ended_at IS NOT NULL")
    op.create_table(
        "jobs",
        sa.Column("seq", INT, primary_key=True, autoincrement=False),
        sa.Column("id", ID, nullable=False, unique=True),
        sa.Column("version", INT, nullable=False, server_default="0"),
        sa.Column("state", sa.Text(), nullable=False, server_default="queued"),
        sa.Column("attempt", INT, nullable=False, server_default="0"),
        sa.Column("project", sa.Text(), nullable=False, server_default="default"),
        sa.Column("user", sa.Text(), nullable=False, server_default=""),
        sa.Column("queue", sa.Text(), nullable=False, server_default="default"),
        sa.Column("pool", sa.Text(), nullable=False, server_default=""),
        sa.Column("priority", INT, nullable=False, server_default="0"),
        sa.Column("name", sa.Text(), nullable=False, server_default=""),
        sa.Column("spec", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("submitted_at", sa.Double(), nullable=False, server_default="0.0"),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False, server_default=""),
        sa.Column("retries_user", INT, nullable=False, server_default="0"),
        sa.Column("retries_platform", INT, nullable=False, server_default="0"),
        sa.Column("retries_capacity", INT, nullable=False, server_default="0"),
        sa.Column("not_before", sa.Double(), nullable=False, server_default="0.0"),
        sa.Column("stop_by", sa.Double(), nullable=True),
        sa.Column("grace_s", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("avoid", sa.Text(), nullable=False, server_default="[]"),
        sa.Column("retry_of", sa.Text(), nullable=True),
        sa.Column("array_id", sa.Text(), nullable=True),
        sa.Column("array_index", INT, nullable=True),
    )
    op.create_index("ix_jobs_ended", "jobs", ["ended_at"], sqlite_where=over)
    op.create_index("ix_jobs_name", "jobs", ["name", "seq"])
    op.create_index("ix_jobs_project", "jobs", ["project", "seq"])
    op.create_index("ix_jobs_state", "jobs", ["state", "seq"])


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("job", INT, primary_key=True, autoincrement=False),
        sa.Column("number", INT, primary_key=True, autoincrement=False),
        sa.Column("placed_at", sa.Double(), nullable=False, server_default="0.0"),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False, server_default=""),
        sa.Column("exit_code", INT, nullable=True),
        sa.Column("resumed_step", INT, nullable=True),
        sa.Column("seen_step", INT, nullable=True),
        sa.Column("committed_step", INT, nullable=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tasks",
        sa.Column("job", INT, primary_key=True, autoincrement=False),
        sa.Column("attempt", INT, primary_key=True, autoincrement=False),
        sa.Column("index", INT, primary_key=True, autoincrement=False),
        sa.Column("node", sa.Text(), nullable=False, server_default=""),
        sa.Column("gpus", sa.Text(), nullable=False, server_default="[]"),
        sa.Column("phase", sa.Text(), nullable=False, server_default="placed"),
        sa.Column("address", sa.Text(), nullable=False, server_default=""),
        sa.Column("port", INT, nullable=False, server_default="0"),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("resumed_step", INT, nullable=True),
        sa.Column("seen_step", INT, nullable=True),
        sa.Column("committed_step", INT, nullable=True),
        sqlite_with_rowid=False,
    )


def _nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("id", ID, primary_key=True, autoincrement=False),
        sa.Column("pool", sa.Text(), nullable=False, server_default=""),
        sa.Column("cpus", sa.Double(), nullable=False, server_default="0.0"),
        sa.Column("memory_bytes", INT, nullable=False, server_default="0"),
        sa.Column("gpus", INT, nullable=False, server_default="0"),
        sa.Column("boot_id", sa.Text(), nullable=False, server_default=""),
        sa.Column("agent_epoch", INT, nullable=False, server_default="0"),
        sa.Column("agent_version", sa.Text(), nullable=False, server_default=""),
        sa.Column("address", sa.Text(), nullable=False, server_default=""),
        sa.Column("image", sa.Text(), nullable=False, server_default=""),
        sa.Column("zone", sa.Text(), nullable=False, server_default=""),
        sa.Column("kind", sa.Text(), nullable=False, server_default="on-demand"),
        sa.Column("labels", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("available_until", sa.Double(), nullable=True),
        sa.Column("cordoned", INT, nullable=False, server_default="0"),
        sa.Column("joined_at", sa.Double(), nullable=False, server_default="0.0"),
        sa.Column("gone_at", sa.Double(), nullable=True),
    )
    op.create_table(
        "pools",
        sa.Column("name", ID, primary_key=True, autoincrement=False),
        sa.Column("engine", sa.Text(), nullable=False, server_default=""),
        sa.Column("nodes_min", INT, nullable=False, server_default="0"),
        sa.Column("nodes_max", INT, nullable=False, server_default="1"),
        sa.Column("kind", sa.Text(), nullable=False, server_default="on-demand"),
        sa.Column("price_per_hour", sa.Double(), nullable=False, server_default="0.0"),
        sa.Column("lease_s", sa.Double(), nullable=False, server_default="1800.0"),
        sa.Column("idle_s", sa.Double(), nullable=False, server_default="600.0"),
        sa.Column("options", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("version", INT, nullable=False, server_default="0"),
    )


def _orders() -> None:
    op.create_table(
        "orders",
        sa.Column("id", ID, primary_key=True, autoincrement=False),
        sa.Column("pool", sa.Text(), nullable=False, server_default=""),
        sa.Column("engine", sa.Text(), nullable=False, server_default=""),
        sa.Column("state", sa.Text(), nullable=False, server_default="asked"),
        sa.Column("nodes", INT, nullable=False, server_default="1"),
        sa.Column("shape", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("options", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("detail", sa.Text(), nullable=False, server_default=""),
        sa.Column("asked_at", sa.Double(), nullable=False, server_default="0.0"),
        sa.Column("filled_at", sa.Double(), nullable=True),
        sa.Column("released_at", sa.Double(), nullable=True),
        sa.Column("version", INT, nullable=False, server_default="0"),
    )


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", INT, primary_key=True, autoincrement=False),
        sa.Column("job_seq", INT, nullable=False, server_default="0"),
        sa.Column("job", sa.Text(), nullable=False, server_default=""),
        sa.Column("attempt", INT, nullable=False, server_default="0"),
        sa.Column("kind", sa.Text(), nullable=False, server_default=""),
        sa.Column("at", sa.Double(), nullable=False, server_default="0.0"),
        sa.Column("data", sa.Text(), nullable=False, server_default="{}"),
    )
    op.create_index("ix_events_job", "events", ["job_seq", "seq"])
    op.create_table(
        "submit_keys",
        sa.Column("key", ID, primary_key=True, autoincrement=False),
        sa.Column("jobs", sa.Text(), nullable=False, server_default="[]"),
        sa.Column("digest", sa.Text(), nullable=False, server_default=""),
        sa.Column("at", sa.Double(), nullable=False, server_default="0.0"),
    )


def _logs() -> None:
    op.create_table(
        "log_ranges",
        sa.Column("job", INT, primary_key=True, autoincrement=False),
        sa.Column("attempt", INT, primary_key=True, autoincrement=False),
        sa.Column("task", INT, primary_key=True, autoincrement=False),
        sa.Column("rank", INT, primary_key=True, autoincrement=False),
        sa.Column("stream", ID, primary_key=True, autoincrement=False),
        sa.Column("start", INT, primary_key=True, autoincrement=False),
        sa.Column("end", INT, nullable=False, server_default="0"),
        sa.Column("key", ID, nullable=False, server_default=""),
        sa.Column("key_offset", INT, nullable=False, server_default="0"),
        sa.Column("at", sa.Double(), nullable=False, server_default="0.0"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_log_ranges_key", "log_ranges", ["key"])
    op.create_table(
        "log_ends",
        sa.Column("job", INT, primary_key=True, autoincrement=False),
        sa.Column("attempt", INT, primary_key=True, autoincrement=False),
        sa.Column("task", INT, primary_key=True, autoincrement=False),
        sa.Column("rank", INT, primary_key=True, autoincrement=False),
        sa.Column("stream", ID, primary_key=True, autoincrement=False),
        sa.Column("end", INT, nullable=False, server_default="0"),
        sqlite_with_rowid=False,
    )


def _server() -> None:
    op.create_table(
        "counters",
        sa.Column("one", INT, primary_key=True, autoincrement=False),
        sa.Column("event_seq", INT, nullable=False, server_default="0"),
        sa.Column("job_seq", INT, nullable=False, server_default="0"),
    )
    op.create_table(
        "leader",
        sa.Column("one", INT, primary_key=True, autoincrement=False),
        sa.Column("server", sa.Text(), nullable=False, server_default=""),
        sa.Column("epoch", INT, nullable=False, server_default="0"),
        sa.Column("until", sa.Double(), nullable=False, server_default="0.0"),
        sa.Column("address", sa.Text(), nullable=False, server_default=""),
        sa.Column("extra", sa.Text(), nullable=False, server_default="{}"),
    )
    op.execute("INSERT INTO counters (one) VALUES (1)")
    op.execute("INSERT INTO leader (one) VALUES (1)")
