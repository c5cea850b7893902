"""Checkpoints, artifacts, bundles and who uses them; when a step was committed, and how often a job ended quickly."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0002"
down_revision = "r0001"
branch_labels = None
depends_on = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("jobs", _int("quick_ends"))
    op.add_column("attempts", sa.Column("committed_at", sa.Double(), nullable=True))
    _files()
    _bundles()


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")


def _int(name: str) -> sa.Column[int]:
    return sa.Column(name, INT, nullable=False, server_default="0")


def _float(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False, server_default="0.0")


def _text(name: str, default: str = "", type_: sa.types.TypeEngine[str] | None = None) -> sa.Column[str]:
    return sa.Column(name, type_ or sa.Text(), nullable=False, server_default=default)


def _files() -> None:
    op.create_table(
        "checkpoints",
        *(sa.Column(name, INT, primary_key=True, autoincrement=False) for name in ("job", "attempt", "task", "step")),
        _text("how"),
        _text("key", type_=ID),
        _int("bytes"),
        _int("files"),
        _float("at"),
        _text("metrics", "{}"),
        _text("state", "committed"),
        _int("pinned"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_checkpoints_key", "checkpoints", ["key"])
    op.create_table(
        "artifacts",
        *(sa.Column(name, INT, primary_key=True, autoincrement=False) for name in ("job", "attempt", "task")),
        sa.Column("path", ID, primary_key=True),
        _int("size"),
        _text("sha256"),
        _text("keys", "[]"),
        _float("at"),
        sqlite_with_rowid=False,
    )


def _bundles() -> None:
    op.create_table(
        "bundles",
        sa.Column("digest", ID, primary_key=True),
        _int("bytes"),
        _int("files"),
        _float("created_at"),
        _float("last_used_at"),
    )
    op.create_table(
        "uses",
        sa.Column("job", INT, primary_key=True, autoincrement=False),
        sa.Column("kind", ID, primary_key=True),
        sa.Column("name", ID, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_uses_name", "uses", ["kind", "name"])
