"""The servers that work on this database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0005"
down_revision = "r0003"
branch_labels = None
depends_on = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "servers",
        sa.Column("name", ID, primary_key=True),
        *(sa.Column(name, sa.Text(), nullable=False, server_default="") for name in ("address", "version", "host")),
        sa.Column("pid", INT, nullable=False, server_default="0"),
        sa.Column("storage", sa.Text(), nullable=False, server_default=""),
        *(sa.Column(name, sa.Double(), nullable=False, server_default="0.0") for name in ("started_at", "seen_at")),
    )


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")
