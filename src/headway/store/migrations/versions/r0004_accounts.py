"""Users, projects, who is in which, tokens, the audit log, secrets, and keys that all servers of a store share."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "r0004"
down_revision = "r0005"
branch_labels = None
depends_on = None

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "users",
        _key("name"),
        _text("email", type_=ID),
        _text("subject", type_=ID),
        sa.Column("admin", INT, nullable=False, server_default="0"),
        _text("created_by"),
        _float("created_at"),
    )
    op.create_table("projects", _key("name"), _text("created_by"), _float("created_at"))
    op.create_table("memberships", _key("project"), _key("user"), _text("role", "viewer"))
    op.create_table(
        "tokens",
        _key("prefix"),
        _text("hash", type_=ID),
        _text("kind", "personal"),
        *(_text(name) for name in ("label", "user", "project", "role")),
        _float("created_at"),
        *(sa.Column(name, sa.Double(), nullable=True) for name in ("expires_at", "revoked_at", "used_at")),
    )
    op.create_table(
        "audit",
        _key("seq", INT),
        _float("at"),
        *(_text(name) for name in ("actor", "kind", "token", "what", "target", "project")),
        _text("outcome", "done"),
        _text("detail"),
    )
    op.create_table(
        "secrets",
        _key("project"),
        _key("name"),
        _key("version", INT),
        _text("key_id"),
        *(sa.Column(name, sa.LargeBinary(), nullable=True) for name in ("nonce", "ciphertext")),
        _text("reference"),
        _text("created_by"),
        _float("created_at"),
    )
    op.create_table("shared_keys", _key("name"), _text("key"))


def downgrade() -> None:
    raise NotImplementedError("restore the copy that was made before the upgrade")


def _key(name: str, type_: sa.types.TypeEngine[Any] = ID) -> sa.Column[Any]:
    return sa.Column(name, type_, primary_key=True, autoincrement=False)


def _text(name: str, default: str = "", type_: sa.types.TypeEngine[str] | None = None) -> sa.Column[str]:
    return sa.Column(name, type_ or sa.Text(), nullable=False, server_default=default)


def _float(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=False, server_default="0.0")
