"""Which state may follow which, and which signal each state hears. The tables; lifecycle.py applies them.

The diagram in docs/reference is drawn from these tables, so it cannot lie. A signal that a state does not hear is
dropped: it is not an error, just late.
"""

from __future__ import annotations

from headway.core.model import Phase, State

MEANS: dict[State, str] = {
    State.QUEUED: "nothing of it runs; the scheduler moves it on",
    State.STARTING: "places are taken and agents are told; a single task may have begun, of several none has",
    State.RUNNING: "every task is claimed, and begins or has begun: user code may be running",
    State.STOPPING: "an end was decided; tasks that may still run are being ended",
    State.SUCCEEDED: "every rank ended with 0",
    State.FAILED: "it ended badly and is not tried again; its cause says why",
    State.CANCELLED: "somebody asked it to end",
}

FOLLOWS: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.STARTING, State.CANCELLED, State.FAILED}),
    State.STARTING: frozenset({State.RUNNING, State.STOPPING, State.QUEUED, State.CANCELLED, State.FAILED}),
    State.RUNNING: frozenset({State.STOPPING, State.SUCCEEDED, State.FAILED, State.QUEUED, State.CANCELLED}),
    State.STOPPING: frozenset({State.SUCCEEDED, State.QUEUED, State.FAILED, State.CANCELLED}),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}

TASK_FOLLOWS: dict[Phase, frozenset[Phase]] = {
    Phase.BEHIND: frozenset({Phase.PLACED, Phase.GOING, Phase.ENDED, Phase.LOST, Phase.RELEASED}),
    Phase.PLACED: frozenset({Phase.CLAIMED, Phase.GOING, Phase.RELEASED}),
    Phase.CLAIMED: frozenset({Phase.GOING, Phase.RELEASED}),
    Phase.GOING: frozenset({Phase.SAVING, Phase.ENDED, Phase.LOST}),
    Phase.SAVING: frozenset({Phase.ENDED, Phase.LOST}),
    Phase.ENDED: frozenset(),
    Phase.LOST: frozenset(),
    Phase.RELEASED: frozenset(),
}

# Written out by name so that the reference page can show it; lifecycle.py checks that each has its function.
HEARS: dict[State, tuple[str, ...]] = {
    State.QUEUED: ("Placed", "CancelAsked", "RetryAsked", "CanNeverRun", "SpecChanged", "Tagged", "PendingOver"),
    State.STARTING: (
        "Claimed",
        "MovedUp",
        "Refused",
        "ClaimOverdue",
        "PrepareFailed",
        "ResumeSpoiled",
        "NodeLost",
        "CancelAsked",
        "StopDecided",
        "Tagged",
    ),
    State.RUNNING: (
        "TaskEnded",
        "RanksOver",
        "Stayed",
        "TaskMissing",
        "NodeLost",
        "CancelAsked",
        "StopDecided",
        "Progressed",
        "Tagged",
    ),
    State.STOPPING: (
        "Claimed",
        "MovedUp",
        "TaskEnded",
        "RanksOver",
        "TaskMissing",
        "NodeLost",
        "CancelAsked",
        "Progressed",
        "Tagged",
    ),
    State.SUCCEEDED: ("Tagged",),
    State.FAILED: ("Tagged",),
    State.CANCELLED: ("Tagged",),
}
