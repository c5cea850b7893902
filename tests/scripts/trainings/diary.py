"""What a training keeps beside Headway for the test to judge by: one line for each thing that it did.

`TRAINING_JOURNAL` names the file, `TRAINING_CEILING` one with the step up to which it may go and the seconds that each
step takes. Without them it runs as fast as it can: so does the undisturbed training that results are compared with.
"""

import atexit
import hashlib
import json
import os
import pickle
import time

JOURNAL, CEILING = os.environ.get("TRAINING_JOURNAL", ""), os.environ.get("TRAINING_CEILING", "")
RANK, ATTEMPT = int(os.environ.get("RANK") or 0), int(os.environ.get("HEADWAY_ATTEMPT") or 0)
told = []  # Whoever heeds a notice appends to it.


def digest(state):
    raw = state if isinstance(state, bytes) else pickle.dumps(state)
    return hashlib.sha256(raw).hexdigest()[:16]


def note(what, step=0, state=None, **more):
    line = {"at": time.time(), "attempt": ATTEMPT, "rank": RANK, "pid": os.getpid(), "what": what, "step": step}
    if state is not None:
        line["hash"] = digest(state)
    if JOURNAL:
        file = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, (json.dumps({**line, **more}) + "\n").encode())
        os.close(file)


def began(step, state=None):
    """The training goes on after this step: with what it has loaded, or from nothing (step 0)."""
    note("began", step, state, node=os.environ.get("HEADWAY_NODE_DIR", ""))


def stepped(step, state):
    """A step is done: when it has taken as long as the test wants it to, and the test allows it.

    So whoever is ended is mostly ended while it waits here, and has told of the step before by then.
    """
    note("told", step - 1)
    if CEILING:
        while True:
            with open(CEILING) as file:
                words = file.read().split()
            if step <= int(words[0]) or told:
                break
            time.sleep(0.01)
        time.sleep(float(words[1]))
    note("step", step, state)


def saving(step):
    note("saving", step)


def saved(step):
    note("saved", step)


def torn(step, why):
    """What was there to resume from is not whole."""
    note("torn", step, why=str(why)[:300])


def done(step, state):
    note("done", step, state)
    print("done", step, digest(state), flush=True)


# A library may take its time to end, and that is lost too: who was first to ask is called last.
atexit.register(note, "left")
