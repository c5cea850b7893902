"""What the judge says: the sentence that does not hold."""

from __future__ import annotations


class Broken(BaseException):
    """A sentence that must hold does not. `kind` is safety, liveness or crash.

    No Exception: the server outlives those of its commands, and must not outlive the judge.
    """

    def __init__(self, kind: str, about: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.about = about
        self.sentence = sentence
