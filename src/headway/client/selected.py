"""Many jobs at once through the SDK, chosen by what they are; the server finds them. Reached as `Client().selected`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headway.client.connection.http import ServerLink


class SelectedJobs:
    """What can be done to a selection. Its words: state, name, tag, queue, user, project, older_than, array."""

    def __init__(self, link: ServerLink) -> None:
        self.link = link

    def preview(self, verb: str, which: Mapping[str, Any]) -> dict[str, Any]:
        """How many jobs a verb (stop, rm, retry, tag) would concern, in which states, and the newest of them."""
        return dict(self.link.call("POST", f"/selection/{verb}/preview", {"which": dict(which)}).json())

    def all(self, verb: str, which: Mapping[str, Any], before: int | None = None, **more: Any) -> dict[str, Any]:
        """Do it to all of them, and say to which, and why to some not."""
        pages = list(self.each(verb, which, before, **more))
        return {word: [one for page in pages for one in page[word]] for word in ("done", "refused")}

    def each(
        self, verb: str, which: Mapping[str, Any], before: int | None = None, **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Do it to all of them, page after page; `before` leaves out what was submitted after a preview."""
        if verb == "retry":
            from headway.client.sdk import new_key

            more = {"key": new_key(), **more}
        while True:
            asked = {"which": dict(which), **({} if before is None else {"before": before}), **more}
            page = dict(self.link.call("POST", f"/selection/{verb}", asked).json())
            yield page
            before = page["next"]
            if before is None:
                return
