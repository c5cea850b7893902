"""Queues, schedules, licences, the account of use; the rest of a pool; arrays found by their id; draining nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0003"
down_revision = "r0002"
branch_labels = None
depends_on = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_index(
        "ix_jobs_array", "jobs", ["array_id", "state", "seq"], sqlite_where=sa.column("array_id").is_not(None)
    )
    op.add_column("nodes", sa.Column("draining", INT, nullable=False, server_default="0"))
    op.add_column("pools", sa.Column("shape", sa.Text(), nullable=True))
    for name, default in (("gpu_type", ""), ("zone", ""), ("labels", "{}"), ("state", "open")):
        op.add_column("pools", _text(name, default))
    op.create_table("queues", sa.Column("name", ID, primary_key=True), _text("body", "{}"))
    op.create_table("schedules", sa.Column("name", ID, primary_key=True), _text("body", "{}"))
    op.create_table(
        "licences",
        sa.Column("name", ID, primary_key=True),
        sa.Column("count", INT, nullable=False, server_default="0"),
    )
    op.create_table(
        "use_accounts",
        *(sa.Column(name, ID, primary_key=True) for name in ("queue", "project", "user")),
        *(sa.Column(name, sa.Double(), nullable=False, server_default="0.0") for name in ("amount", "at")),
    )


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")


def _text(name: str, default: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False, server_default=default)
