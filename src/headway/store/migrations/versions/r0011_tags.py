"""Jobs found by their tags, and by the job that they are a retry of."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "r0011"
down_revision = "r0010"
branch_labels = None
depends_on = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
AT_ONCE = 1000


def upgrade() -> None:
    op.create_index("ix_jobs_retry", "jobs", ["retry_of"], sqlite_where=sa.column("retry_of").is_not(None))
    table = op.create_table(
        "job_tags",
        sa.Column("job", INT, primary_key=True, autoincrement=False),
        sa.Column("key", ID, primary_key=True, autoincrement=False),
        sa.Column("value", sa.Text(), nullable=False, server_default=""),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_job_tags_key", "job_tags", ["key", "job"])
    connection = op.get_bind()
    jobs = sa.table("jobs", sa.column("seq"), sa.column("spec"))
    done = 0
    while True:
        # Only those whose description says tags; a few at a time, however many there are.
        some = sa.select(jobs.c.seq, jobs.c.spec).where(jobs.c.seq > done, jobs.c.spec.like('%"tags":[[%'))
        found = connection.execute(some.order_by(jobs.c.seq).limit(AT_ONCE)).fetchall()
        if not found:
            return
        rows = [
            {"job": seq, "key": _plain(key), "value": _plain(value)}
            for seq, spec in found
            for key, value in dict(map(tuple, json.loads(spec)["tags"])).items()
        ]
        connection.execute(table.insert(), rows)
        done = found[-1][0]


def _plain(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")
