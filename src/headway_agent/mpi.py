"""mpirun on the first node of a gang, and on the others a process that holds their places until it has ended.

The first listens at the address that every node knows as MASTER_ADDR and MASTER_PORT; the others hang on to it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time

CONNECT_S_MAX = 120.0
NOT_FOUND = 127
LOST = 1


def lead(words: list[str]) -> int:
    """`HOSTFILE WORLD COMMAND…`: run mpirun, tell the others when it is over, and end as it ended."""
    hosts, world, command = words[0], words[1], words[2:]
    program = shutil.which("mpirun") or shutil.which("mpiexec")
    if program is None:
        sys.stderr.write(
            "headway: no mpirun on the PATH of this node; install Open MPI or MPICH there, or use --launcher plain\n"
        )
        return NOT_FOUND
    with _listening() as listener:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 and _is_open_mpi(program) else []
        code = subprocess.call([program, *root, "--hostfile", hosts, "-np", world, *command])
        listener.setblocking(False)
        _tell_all(listener)
    return code if code >= 0 else 128 - code


def _listening() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", int(os.environ.get("MASTER_PORT", "0"))))
    listener.listen(1024)  # They wait in its queue; nobody needs to be spoken to before the end.
    return listener


def _tell_all(listener: socket.socket) -> None:
    give_up_at = time.monotonic() + 1.0
    others = int(os.environ.get("HEADWAY_NUM_NODES", "1")) - 1
    while others > 0 and time.monotonic() < give_up_at:
        try:
            other, _ = listener.accept()
        except BlockingIOError:
            time.sleep(0.01)
            continue
        with other:
            other.sendall(b"over\n")
        others -= 1


def _is_open_mpi(program: str) -> bool:
    try:
        said = subprocess.run([program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return b"Open MPI" in said.stdout or b"OpenRTE" in said.stdout


def hold() -> int:
    """Wait for the first node's word that mpirun is over."""
    address = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "0")))
    give_up_at = time.monotonic() + CONNECT_S_MAX
    while True:
        try:
            with socket.create_connection(address, 10.0) as connection:
                connection.settimeout(None)
                if connection.recv(16):
                    return 0
            sys.stderr.write("headway: the first node went away without a word\n")
            return LOST
        except OSError as error:
            if time.monotonic() > give_up_at:
                sys.stderr.write(f"headway: the first node at {address[0]}:{address[1]} cannot be reached: {error}\n")
                return LOST
            time.sleep(0.2)
