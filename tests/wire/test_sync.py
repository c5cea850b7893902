"""Reading a sync: every word has a type and bounds, and one that is wrong is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.core.errors import BadInput
from headway.core.protocol import SCHEMA, read_sync, without_stored
from headway_agent.decide.decide import KeeperListed, NodeState, Troubled, decide
from headway_wire.kinds import WordRefused
from headway_wire.sync import SyncRequest
from tests.agent.spoken import a_save, answered, sync_of

ME = {"protocol": 1, "node": "n1", "pool": "local", "boot_id": "b", "agent_epoch": 1}
T = "j1/1/0"
PIECE = {"task": T, "rank": 0, "stream": "out", "start": 0, "end": 5, "key": "logs/n1/1-1", "key_offset": 0}
SAVED = {"task": T, "step": 5, "key": "jobs/j1/1/checkpoints/5.json"}


def read(**words: Any) -> SyncRequest:
    return read_sync(json.loads(json.dumps({**ME, **words})))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"agent_epoch": 2**70}, "agent_epoch: expected a whole number from 0 to"),
    ({"agent_epoch": True}, "agent_epoch: expected a whole number"),
    ({"agent_epoch": 1.5}, "agent_epoch: expected a whole number"),
    ({"seq": -1}, "seq: expected a whole number"),
    ({"node": ""}, "node: expected 1 to 200 characters, not 0"),
    ({"node": "x" * 201}, "node: expected 1 to 200 characters, not 201"),
    ({"pool": 7}, "pool: expected a text, not 7"),
    ({"pool": "\0"}, r"pool: '\\x00' contains NUL or an unpaired surrogate"),
    ({"boot_id": "\ud800"}, r"boot_id: '\\ud800' contains NUL"),
    ({"wait_s": float("nan")}, "wait_s: expected a number from 0"),
    ({"wait_s": 10**400}, "wait_s: expected a number from 0 to 1e.10, not "),
    ({"full": 1}, "full: expected true or false, not 1"),
    ({"facts": {"memory_bytes": 10**30}}, "facts.memory_bytes: expected a whole number"),
    ({"facts": {"cpus": float("inf")}}, "facts.cpus: expected a number"),
    ({"facts": {"address": "\ud800"}}, "facts.address: "),
    ({"reports": "x"}, "reports: expected a list, not 'x'"),
    ({"reports": [{"task": T, "phase": "claimed"}, 7]}, r"reports\[1\]: expected an object, not 7"),
    ({"reports": [{"task": T, "phase": "gone"}]}, r"reports\[0\].phase: expected one of claimed, .*, not 'gone'"),
    ({"reports": [{"task": "j1/1", "phase": "ended"}]}, r'reports\[0\].task: expected a task as "job/attempt/index"'),
    ({"reports": [{"task": "j1/01/0", "phase": "ended"}]}, r"reports\[0\].task"),
    ({"reports": [{"task": "j1/1/99999999999", "phase": "ended"}]}, r"reports\[0\].task"),
    ({"reports": [{"task": T, "phase": "claimed", "port": 65536}]}, r"reports\[0\].port"),
    ({"reports": [{"task": T, "phase": "ended", "outcome": {"rank": 1e9}}]}, r"reports\[0\].outcome.rank"),
    ({"logs": [{**PIECE, "end": 2**63}]}, r"logs\[0\].end"),
    ({"logs": [{**PIECE, "crc32": -1}]}, r"logs\[0\].crc32"),
    ({"logs": [{}]}, r'logs\[0\]: "task" is missing'),
    ({"checkpoints": {"a": 1}}, "checkpoints: expected a list"),
    ({"notice": 7}, "notice: expected an object, not 7"),
    ({"steps": [7]}, "steps: expected an object"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[str(words)[:60] for words, _ in WRONG])
def test_a_word_that_is_wrong_is_named_with_what_was_expected(words: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=f"sync: {said}") as refused:
        read(**words)
    assert len(refused.value.message) < 300
    refused.value.message.encode()


@pytest.mark.parametrize("word", ["node", "pool", "boot_id", "agent_epoch"])
def test_a_call_that_does_not_say_who_calls_is_refused(word: str) -> None:
    with pytest.raises(BadInput, match=f'"{word}" is missing'):
        read_sync({each: said for each, said in ME.items() if each != word})


def test_words_for_people_are_made_clean_and_cut_but_never_refused() -> None:
    told = read(
        troubles=[{"what": "logs", "detail": "no \udce4 file\0" + "x" * 9000}],
        reports=[{"task": T, "phase": "ended", "outcome": {"exit_code": 1, "detail": "caf\udce9", "cause": None}}],
    )
    assert told.troubles is not None
    assert told.troubles[0].detail.startswith("no \ufffd file\ufffdxxx")
    assert len(told.troubles[0].detail) == 500
    assert told.reports[0].outcome.detail == "caf\ufffd"


def test_an_entry_of_kept_files_that_is_wrong_is_refused_alone() -> None:
    told = read(
        checkpoints=[{**SAVED, "step": 2**80}, SAVED, 7],
        artifacts=[{"task": T, "path": "caf\udce9", "keys": [], "size": 1}],
        steps={T: 4, "x": 4, "j2/1/0": -4},
    )
    assert [isinstance(each, WordRefused) for each in told.checkpoints] == [True, False, True]
    assert [pair for pair in told.steps if not isinstance(pair, WordRefused)] == [("j1/1/0", 4)]
    assert [f"{word}{each.why}"[:24] for word, each in told.refused()] == [
        "checkpoints[0].step: exp", "checkpoints[2]: expected", "artifacts[0].path: 'caf\\", "steps['x']: expected a t",
        "steps['j2/1/0']: expecte",
    ]  # fmt: skip


def test_words_that_nobody_knows_are_passed_over_and_missing_ones_are_what_they_always_were() -> None:
    told = read(dance=7, facts={"cpus": 2, "python": "3.8"})
    assert (told.full, told.wait_s, told.storage, told.troubles, told.facts.cpus) == (False, 0.0, None, None, 2.0)
    assert read(storage=None).storage == ""


def test_what_the_agent_itself_says_can_be_read() -> None:
    state = NodeState(node="n1", pool="local", boot_id="b", agent_epoch=3, agent_version="v")
    decide(state, KeeperListed([]), 1.0)
    duties = [{"task": T, "do": "go"}, {"task": "j2/1/0", "do": "claim", "argv": ["true"]}]
    sync_of(state, {"cpus": 1.0}, 2.0)
    reply = {"leader_epoch": 4, "duties": duties, "lease_left_s": 60, "storage": {"mark": "m"}}
    decide(state, answered(reply), 2.0)
    decide(state, Troubled("logs", "waits"), 3.0)
    decide(state, a_save("j2/1/0", {**SAVED, "how": "renamed"}, "m"), 3.0)
    body = sync_of(state, {"cpus": 1.0}, 4.0)
    told = read_sync(json.loads(json.dumps(body)))
    assert told.reports[0].phase == "ended"
    assert (told.agent_epoch, told.leader_epoch, told.storage, told.marks) == (3, 4, "m", True)
    assert [*told.refused()] == []
    assert len(told.checkpoints) == len(body.get("checkpoints", ()))


def test_without_what_lies_in_storage_all_else_is_there() -> None:
    told = without_stored(read(logs=[PIECE], checkpoints=[SAVED], steps={T: 3}, full=True))
    assert (told.logs, told.checkpoints, told.full, len(told.steps)) == ((), (), True, 1)


def test_the_schema_says_what_is_read() -> None:
    assert SCHEMA["required"] == ["node", "pool", "boot_id", "agent_epoch", "protocol"]
    assert SCHEMA["properties"]["seq"] == {"type": "integer", "minimum": 0, "maximum": 2**62}
    report = SCHEMA["properties"]["reports"]["items"]
    assert report["properties"]["phase"]["enum"][0] == "claimed"
    json.dumps(SCHEMA, allow_nan=False)
