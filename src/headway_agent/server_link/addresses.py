"""Which of several servers an agent asks next: pure, so that the simulator asks by the same rule."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence


class ServerAddresses:
    """A silent one is passed over for the next; a leader that a server pointed to is tried first."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = [url for url in urls if url]
        self._turn = 0
        self._leader = ""

    @property
    def several(self) -> bool:
        return len(self.urls) > 1

    def now(self) -> str:
        return self._leader or (self.urls[self._turn % len(self.urls)] if self.urls else "")

    def silent(self, url: str) -> None:
        """This address did not answer: try the next one."""
        if url == self.now():
            if not self._leader:
                self._turn += 1
            self._leader = ""

    def pointed_to(self, leader: str) -> None:
        """A server that does not lead says who does; one that does not know it is passed over."""
        if leader:
            self._leader = leader
        else:
            self.silent(self.now())
