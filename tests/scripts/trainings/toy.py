"""A training without any library: the weights after step n depend on n alone, and on every step before it."""

import os
import pickle
import socket
import struct


def fresh(rank=0):
    weights = [((i * 2654435761 + rank) % 2**32) / 2**32 for i in range(700)]
    return {"step": 0, "weights": weights, "momentum": [0.0] * 100}


def advance(state, pull=0.0):
    """One step. Returns the loss. `pull` is what the other ranks of a gang have found."""
    weights, momentum = state["weights"], state["momentum"]
    for i in range(0, len(weights), 7):
        momentum[i // 7] = 0.9 * momentum[i // 7] + weights[i]
        weights[i] = (
            weights[i] * 3.7 * (1 - weights[i]) + weights[i - 1] * 1e-3 + momentum[i // 7] * 1e-4 + pull
        ) % 1.0
    state["step"] += 1
    return sum(weights) / len(weights)


class Gang:
    """All ranks, step by step: each gets the mean of what all have. Ends with an error when one of them is gone."""

    def __init__(self):
        self.rank, self.size = int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)
        where = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT") or 0))
        self.lines = []
        if self.rank == 0 and self.size > 1:
            with socket.create_server(where, reuse_port=False) as server:
                server.settimeout(120)
                self.lines = [server.accept()[0] for _ in range(self.size - 1)]
        elif self.size > 1:
            self.lines = [self._meet(where)]

    @staticmethod
    def _meet(where):
        for _ in range(1200):
            try:
                return socket.create_connection(where, timeout=120)
            except OSError:
                __import__("time").sleep(0.1)
        raise ConnectionError("the first rank is not there")

    def mean(self, value):
        if self.rank:
            self.lines[0].sendall(struct.pack("d", value))
            return struct.unpack("d", _exactly(self.lines[0], 8))[0]
        values = [value, *sorted(struct.unpack("d", _exactly(line, 8))[0] for line in self.lines)]
        for line in self.lines:
            line.sendall(struct.pack("d", sum(values) / len(values)))
        return sum(values) / len(values)


def _exactly(line, size):
    data = b""
    while len(data) < size:
        piece = line.recv(size - len(data))
        if not piece:
            raise ConnectionError("another rank is gone")
        data += piece
    return data


def content(state):
    """All of a state as bytes: for the journal."""
    return pickle.dumps((state["step"], state["weights"], state["momentum"]))
