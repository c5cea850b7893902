"""The storage places that a database has had; a checksum of each piece of output."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0006"
down_revision = "r0004"
branch_labels = None
depends_on = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "storages",
        sa.Column("turn", INT, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text(), nullable=False, server_default="") for name in ("id", "copy", "place")),
        sa.Column("since", sa.Double(), nullable=False, server_default="0.0"),
    )
    op.add_column("log_ranges", sa.Column("crc32", INT, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")
