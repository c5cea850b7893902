"""Which right each route of the spine needs; features bring theirs. A route without one keeps the server from starting.

What a right means is in core/access/actor.py; that a job or something else belongs to a project in which the caller
has it is checked where the thing is found (gate.py).
"""

from __future__ import annotations

from headway.core.access.actor import Right

OPEN, KNOWN, VIEW, CHANGE, MANAGE, SERVE, AGENT = (
    Right.OPEN,
    Right.KNOWN,
    Right.VIEW,
    Right.CHANGE,
    Right.MANAGE,
    Right.SERVE,
    Right.AGENT,
)

RIGHTS: dict[tuple[str, str], Right] = {
    # --- jobs ---
    ("POST", "/api/v1/jobs"): CHANGE,
    ("POST", "/api/v1/jobs/batch"): CHANGE,
    ("GET", "/api/v1/jobs"): KNOWN,
    ("GET", "/api/v1/jobs/{ref}"): VIEW,
    ("GET", "/api/v1/jobs/{ref}/why"): VIEW,
    ("GET", "/api/v1/jobs/{ref}/wait"): VIEW,
    ("POST", "/api/v1/jobs/{ref}/stop"): CHANGE,
    ("POST", "/api/v1/jobs/{ref}/retry"): CHANGE,
    ("DELETE", "/api/v1/jobs/{ref}"): CHANGE,
    ("PATCH", "/api/v1/jobs/{ref}"): CHANGE,
    ("POST", "/api/v1/jobs/{ref}/hold"): CHANGE,
    ("POST", "/api/v1/jobs/{ref}/release"): CHANGE,
    ("POST", "/api/v1/plan"): CHANGE,
    ("GET", "/api/v1/plan"): KNOWN,
    # --- arrays ---
    ("GET", "/api/v1/arrays/{array}"): VIEW,
    ("GET", "/api/v1/arrays/{array}/counts"): VIEW,
    ("GET", "/api/v1/arrays/{array}/why"): VIEW,
    ("PATCH", "/api/v1/arrays/{array}"): CHANGE,
    ("POST", "/api/v1/arrays/{array}/stop"): CHANGE,
    ("POST", "/api/v1/arrays/{array}/hold"): CHANGE,
    ("POST", "/api/v1/arrays/{array}/release"): CHANGE,
    # --- many jobs at once ---
    ("POST", "/api/v1/selection/{verb}/preview"): CHANGE,
    ("POST", "/api/v1/selection/{verb}"): CHANGE,
    # --- output and progress ---
    ("GET", "/api/v1/jobs/{ref}/logs"): VIEW,
    ("GET", "/api/v1/jobs/{ref}/logs/raw"): VIEW,
    ("GET", "/api/v1/jobs/{ref}/checkpoints"): VIEW,
    ("POST", "/api/v1/jobs/{ref}/checkpoints/{step}/pin"): CHANGE,
    ("GET", "/api/v1/jobs/{ref}/checkpoints/{step}/files"): VIEW,
    ("GET", "/api/v1/jobs/{ref}/checkpoints/{step}/raw"): VIEW,
    ("POST", "/api/v1/jobs/{ref}/preempt"): CHANGE,
    ("GET", "/api/v1/jobs/{ref}/artifacts"): VIEW,
    ("GET", "/api/v1/jobs/{ref}/artifacts/raw"): VIEW,
    ("POST", "/api/v1/jobs/{ref}/fork"): CHANGE,
    ("POST", "/api/v1/jobs/{ref}/rerun"): CHANGE,
    ("GET", "/api/v1/jobs/{one}/diff/{other}"): VIEW,
    ("GET", "/api/v1/events"): KNOWN,
    ("GET", "/api/v1/events/page"): KNOWN,
    # --- what operators set ---
    ("GET", "/api/v1/queues"): KNOWN,
    ("PATCH", "/api/v1/queues/{name}"): SERVE,
    ("DELETE", "/api/v1/queues/{name}"): SERVE,
    ("GET", "/api/v1/pools"): KNOWN,
    ("PATCH", "/api/v1/pools/{name}"): SERVE,
    ("GET", "/api/v1/pools/{name}/render"): SERVE,
    ("GET", "/api/v1/hosts"): SERVE,
    ("DELETE", "/api/v1/pools/{name}"): SERVE,
    ("GET", "/api/v1/licences"): KNOWN,
    ("PATCH", "/api/v1/licences"): SERVE,
    ("POST", "/api/v1/nodes/{node}/release"): SERVE,
    ("POST", "/api/v1/nodes/{node}/revoke"): SERVE,
    ("POST", "/api/v1/nodes/{node}/{how}"): SERVE,
    # --- accounts ---
    ("GET", "/api/v1/login"): OPEN,
    ("POST", "/api/v1/login/oidc"): OPEN,
    ("GET", "/api/v1/whoami"): KNOWN,
    ("POST", "/api/v1/session"): KNOWN,
    ("GET", "/api/v1/session"): KNOWN,
    ("DELETE", "/api/v1/session"): KNOWN,
    ("GET", "/api/v1/users"): SERVE,
    ("POST", "/api/v1/users"): SERVE,
    ("PATCH", "/api/v1/users/{name}"): SERVE,
    ("DELETE", "/api/v1/users/{name}"): SERVE,
    ("GET", "/api/v1/projects"): KNOWN,
    ("PUT", "/api/v1/projects/{project}"): SERVE,
    ("DELETE", "/api/v1/projects/{project}"): SERVE,
    ("PUT", "/api/v1/projects/{project}/references"): SERVE,
    ("GET", "/api/v1/projects/{project}/members"): VIEW,
    ("PUT", "/api/v1/projects/{project}/members/{user}"): MANAGE,
    ("DELETE", "/api/v1/projects/{project}/members/{user}"): MANAGE,
    ("GET", "/api/v1/tokens"): KNOWN,
    ("POST", "/api/v1/tokens"): KNOWN,
    ("DELETE", "/api/v1/tokens/{prefix}"): KNOWN,
    ("GET", "/api/v1/audit"): SERVE,
    # --- the server, and agents ---
    ("GET", "/api/v1/health"): OPEN,
    ("GET", "/api/v1/server"): KNOWN,
    ("GET", "/api/v1/nodes"): KNOWN,
    ("GET", "/agent/hello"): AGENT,
    ("POST", "/agent/sync"): AGENT,
    ("POST", "/agent/token"): AGENT,
    ("GET", "/agent.pyz"): AGENT,
    ("POST", "/agent/urls"): AGENT,
    ("POST", "/agent/join"): AGENT,
    ("PUT", "/agent/objects/{key:path}"): AGENT,
    ("GET", "/agent/objects/{key:path}"): AGENT,
}

UNRECORDED = frozenset(
    {
        ("POST", "/api/v1/plan"),
        ("POST", "/api/v1/selection/{verb}/preview"),
        ("POST", "/api/v1/session"),
        ("DELETE", "/api/v1/session"),
    }
)
"""Calls that change nothing that anybody could name: questions, and the pieces of what is named later."""
