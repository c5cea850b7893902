"""The near end of a port: this machine's loopback address. Each connection to it is a visit of its own."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from headway.cli.frame import exits
from headway.cli.frame.output import Output
from headway.core.errors import Conflict, HeadwayError, NotFound, OperatorError
from headway.features.visits.client import Visit
from headway_wire.frames import DATA, END, TROUBLE

if TYPE_CHECKING:
    from headway.client.sdk import Client

HERE = "127.0.0.1"
PIECE_BYTES = 1 << 16
LOOK_AGAIN_S = 5.0
MEET_S_MAX = 5.0


def tunnel_port(client: Client, job: str, output: Output, local: int, there: int) -> int:
    """Listen on this side until Ctrl-C or the job's end."""
    found = client.detail(job)
    if found["state"] not in ("running", "stopping"):
        raise Conflict(f"job {found['id']} does not run", f"headway why {found['id']} says where it is")
    ended = _End(client, found["id"])
    if local == there and is_here(client, found["id"]):
        # To listen there would take the port that the job wants, and the tunnel would lead to itself.
        output.say(f"headway: job {found['id']} runs on this machine: what it serves is at http://{HERE}:{there}")
        return _wait(ended, output)
    listener = _listen(local, there)
    output.say(f"headway: port {there} of job {found['id']} is at http://{HERE}:{local} (Ctrl-C ends it)")
    ended.hang_up = lambda: listener.shutdown(socket.SHUT_RDWR)
    ended.watch()
    try:
        while True:
            near, _ = listener.accept()
            threading.Thread(target=_carry, args=(client, found["id"], output, near, there), daemon=True).start()
    except KeyboardInterrupt:
        return exits.OK
    except OSError:
        if ended.job is None:
            raise
        return ended.told(output)
    finally:
        listener.close()


def _listen(local: int, there: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HERE, local))
        listener.listen(64)
    except OSError as error:
        listener.close()
        hint = f"choose another one on this side, such as {local + 10_000 if local < 50_000 else 8080}:{there}"
        raise OperatorError(f"cannot listen on port {local}: {(error.strerror or '').lower()}", hint) from None
    return listener


def is_here(client: Client, job: str) -> bool:
    """Whether the loopback address of the job's node is this one: a word sent to a port there arrives here."""
    word = secrets.token_bytes(16)
    with socket.create_server((HERE, 0)) as meeting:
        try:
            far = Visit(client.link.another(), job, {"kind": "port", "port": meeting.getsockname()[1]})
        except HeadwayError:
            return False
        try:
            far.send(DATA, word)
            threading.Thread(target=_hear, args=(far, meeting), daemon=True).start()
            meeting.settimeout(MEET_S_MAX)
            with meeting.accept()[0] as met:
                met.settimeout(MEET_S_MAX)
                return met.recv(len(word), socket.MSG_WAITALL) == word
        except OSError:
            return False
        finally:
            far.close()


def _hear(far: Visit, meeting: socket.socket) -> None:
    """Wait no longer once the node says that nobody answers there."""
    try:
        for kind, _ in far.frames():
            if kind in (TROUBLE, END):
                break
    except (HeadwayError, OSError, ValueError):
        pass
    try:
        meeting.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # The answer came first.


class _End:
    """The end of the job, watched for over a connection of its own: nothing will answer after it."""

    def __init__(self, client: Client, job: str) -> None:
        self._client, self._id = client.another(), job
        self.job: dict[str, Any] | None = None
        self.hang_up: Any = lambda: None

    def watch(self) -> threading.Thread:
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        return thread

    def _watch(self) -> None:
        while self.job is None:
            try:
                self.job = self._client.wait(self._id)[0]
            except NotFound as forgotten:
                self.job = {"state": "cancelled", "sentence": forgotten.message}
            except HeadwayError:
                time.sleep(LOOK_AGAIN_S)  # The server is away; the job goes on.
        self.hang_up()

    def told(self, output: Output) -> int:
        assert self.job is not None
        output.say(f"headway: job {self._id} has ended, and the tunnel with it: {self.job['sentence']}")
        return exits.for_job(self.job, False)


def _wait(ended: _End, output: Output) -> int:
    watching = ended.watch()
    try:
        watching.join()
    except KeyboardInterrupt:
        return exits.OK
    return ended.told(output)


def _carry(client: Client, job: str, output: Output, near: socket.socket, port: int) -> None:
    try:
        far = Visit(client.link.another(), job, {"kind": "port", "port": port})
    except HeadwayError as error:
        output.say(f"headway: {error.message}")
        near.close()
        return
    threading.Thread(target=_from_near, args=(near, far), daemon=True).start()
    try:
        for kind, content in far.frames():
            if kind == DATA:
                near.sendall(content)
            elif kind == TROUBLE:
                output.say(f"headway: {content.decode('utf-8', 'replace')}")
                break
            elif kind == END:
                break
    except (OSError, HeadwayError):
        pass  # One of the two has gone: so has the connection.
    finally:
        near.close()
        far.close()


def _from_near(near: socket.socket, far: Visit) -> None:
    try:
        while data := near.recv(PIECE_BYTES):
            far.send(DATA, data)
    except OSError:
        pass
    far.send(END)
