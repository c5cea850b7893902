"""A shared server with two projects, and people in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.api.web import rights
from headway.features.catalog import load
from tests.api.serving import Answer, Serving

RIGHTS = dict(rights.RIGHTS)
for each in load().every:
    if (web := each.web()) is not None:
        RIGHTS.update(web.rights)


class Shared(Serving):
    """Projects vision and speech. In vision: vera (viewer), mel (member), ada (admin); in speech: sam (admin)."""

    def __init__(self, folder: Path, **words: Any) -> None:
        super().__init__(folder, accounts="on", token_cache_s=0.05, **words)
        self.tokens: dict[str, str] = {}

    def __enter__(self) -> Shared:
        super().__enter__()
        for project in ("vision", "speech"):
            self.ok("PUT", f"/projects/{project}")
        people = {"vera": ("vision", "viewer"), "mel": ("vision", "member"), "ada": ("vision", "admin")}
        for name, (project, role) in {**people, "sam": ("speech", "admin")}.items():
            self.user(name)
            self.ok("PUT", f"/projects/{project}/members/{name}", {"role": role})
        self.user("root1", admin=True)
        self.user("nobody")
        return self

    def user(self, name: str, **words: Any) -> None:
        self.ok("POST", "/users", {"name": name, **words})
        self.tokens[name] = self.ok("POST", "/tokens", {"user": name})["token"]

    def by(self, who: str, method: str, path: str, body: Any = None) -> Answer:
        token = self.tokens.get(who, who)
        return self.ask(method, path if path.startswith("/agent") else f"/api/v1{path}", body, bearer(token))

    def job_of(self, who: str, **words: Any) -> str:
        job = {"command": ["true"], "resources": {"cpus": 0.1}, **words}
        answer = self.by(who, "POST", "/jobs", {"job": job})
        assert answer.status == 201, answer.data
        return str(answer.json["job"]["id"])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
