"""What an agent remembers of an upload that the one before it did not finish."""

from __future__ import annotations

from pathlib import Path

from headway_agent.files.upload_journal import SENT, SentParts


def test_parts_that_arrived_are_known_to_the_next_agent_in_the_same_place_only(tmp_path: Path) -> None:
    SentParts(str(tmp_path)).stored("aaa.2", {"hash": ("parts/0", 0, 5)})
    with open(tmp_path / SENT, "a") as file:
        file.write('{"storage":"aaa.2","par')  # The agent was killed in the middle of a line.
    again = SentParts(str(tmp_path))
    assert again.parts_in("aaa.2") == {"hash": ("parts/0", 0, 5)}
    assert again.parts_in("aaa.3") == {}


def test_a_finished_checkpoint_ends_the_memory_of_parts_but_not_of_chunks(tmp_path: Path) -> None:
    sent = SentParts(str(tmp_path))
    sent.stored("", {"hash": ("parts/0", 0, 5)})
    sent.chunk_stored("", "parts/output-x.0", "sum")
    sent.forget_parts()
    again = SentParts(str(tmp_path))
    assert again.parts_in("") == {}
    assert again.has_chunk("", "parts/output-x.0", "sum")
    assert not again.has_chunk("", "parts/output-x.0", "other")
    again.drop_chunks(["parts/output-x.0"])
    assert not SentParts(str(tmp_path)).has_chunk("", "parts/output-x.0", "sum")
