"""What the judge says: the sentence that does not hold."""

from __future__ import annotations


class Broken(Exception):
    """A sentence that must hold does not. `kind` is safety, liveness or crash."""

    def __init__(self, kind: str, about: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.about = about
        self.sentence = sentence
