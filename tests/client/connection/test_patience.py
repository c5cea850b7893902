"""How long a server is waited for: one that was met before, one that never answered, and an address that is wrong."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headway import settings
from headway.client.connection import patience
from headway.client.connection.patience import MET_MOST, Acquaintances, hint_for, worth_waiting_s
from headway.client.sdk import Client
from headway.core.errors import Unavailable
from tests.certificates import certified
from tests.client.fake_server import FakeServer
from tests.living import HEADWAY
from tests.waiting import PATIENCE_S

REFUSED = ConnectionRefusedError(111, "Connection refused")
NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
NAMES_AWAY = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
DISTRUST = ssl.SSLCertVerificationError(1, "certificate verify failed")


@pytest.mark.parametrize(
    ("error", "stranger_s", "known_s", "hint"),
    [
        (REFUSED, 15.0, 60.0, "is the port in server_url right?"),
        (TimeoutError("timed out"), 15.0, 60.0, "headway doctor"),
        (NO_NAME, 3.0, 60.0, "is the name in server_url right?"),
        (NAMES_AWAY, 15.0, 60.0, "is the name in server_url right?"),
        (DISTRUST, 0.0, 0.0, "ca_file"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), 15.0, 60.0, "http://"),
    ],
)
def test_a_server_that_was_met_is_worth_more_than_a_stranger(
    error: OSError, stranger_s: float, known_s: float, hint: str
) -> None:
    assert worth_waiting_s(error, 60.0, known=False) == stranger_s
    assert worth_waiting_s(error, 60.0, known=True) == known_s
    assert worth_waiting_s(error, 0.5, known=False) <= 0.5
    assert hint in hint_for(error, known=False)


def test_a_home_remembers_the_servers_that_it_met_but_not_without_end(tmp_path: Path) -> None:
    home = settings.home_from({"HEADWAY_HOME": str(tmp_path)})
    for number in range(MET_MOST + 5):
        Acquaintances(home).remember(f"http://s{number}")
    assert Acquaintances(home).knows(f"http://s{MET_MOST + 4}")
    assert not Acquaintances(home).knows("http://s0")
    (home.cache / "servers-met.json").write_text("[torn")
    assert not Acquaintances(home).knows("http://s5")
    Acquaintances(home).remember("http://s5")
    assert Acquaintances(home).knows("http://s5")
    Acquaintances(settings.home_from({"HEADWAY_HOME": "/proc/no-such-home"})).remember("http://x")


def test_who_has_met_a_server_in_an_earlier_command_waits_for_it(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "STRANGER_S_MAX", 0.0)
    fake.add("j1")
    fake.stop()
    with pytest.raises(Unavailable, match="connection refused") as stranger:
        Client().jobs()
    assert "port" in stranger.value.hint
    fake.restart()
    Client().jobs()
    fake.stop()
    assert [job["id"] for job in back_while(fake, Client())] == ["j1"]


def test_who_says_how_long_he_waits_waits_for_strangers_too(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "STRANGER_S_MAX", 0.0)
    monkeypatch.setenv("HEADWAY_SERVER_WAIT_S", "3m")
    fake.add("j1")
    fake.stop()
    assert [job["id"] for job in back_while(fake, Client())] == ["j1"]


def back_while(fake: FakeServer, client: Client) -> list[dict[str, object]]:
    """What a list brings that is asked for while the server is down; it comes back once it was waited for."""
    began: list[threading.Thread] = []

    def come_back(sentence: str) -> None:
        if not began:
            began.append(threading.Thread(target=fake.restart))
            began[-1].start()

    client.on_trouble(come_back)
    found = client.jobs()
    (thread,) = began
    thread.join()
    client.close()
    return found


def test_of_several_servers_each_is_asked_before_giving_up(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "STRANGER_S_MAX", 0.0)
    monkeypatch.setenv("HEADWAY_SERVER_URL", f"http://127.0.0.1:1,{fake.url}")
    fake.add("j1")
    assert [job["id"] for job in Client(patience_s=0.0).jobs()] == ["j1"]


def test_something_else_that_answers_is_told_at_once_but_a_proxy_is_waited_for(
    fake: FakeServer, client: Client
) -> None:
    fake.faults = ["page 502", "page 502"]
    assert client.jobs() == []
    assert fake.asked.count("GET /jobs") == 3
    fake.faults = ["page 404"]
    with pytest.raises(Unavailable, match="not as a Headway server does"):
        client.jobs()
    assert fake.asked.count("GET /jobs") == 4


def test_a_certificate_that_is_not_trusted_is_told_at_once_with_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with behind_tls(tmp_path) as (url, ca):
        monkeypatch.setenv("HEADWAY_SERVER_URL", url)
        client, tries = Client(patience_s=PATIENCE_S), []
        client.on_trouble(tries.append)
        with pytest.raises(Unavailable, match="certificate verify failed") as refused:
            client.jobs()
        assert "ca_file" in refused.value.hint
        assert tries == []
        monkeypatch.setenv("HEADWAY_CA_FILE", str(ca))
        assert Client().link.dial()


@contextmanager
def behind_tls(place: Path) -> Iterator[tuple[str, Path]]:
    """Something that shakes hands with a certificate of an authority that nobody knows."""
    ours = certified(place)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours.cert, ours.key)

    def greet() -> None:
        while True:
            try:
                context.wrap_socket(listener.accept()[0], server_side=True)
            except ssl.SSLError:
                continue
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=greet, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", ours.ca
        listener.shutdown(socket.SHUT_RDWR)


def test_a_command_says_that_it_waits_also_in_a_pipe_and_goes_on(fake: FakeServer) -> None:
    fake.add("j1", state="succeeded")
    fake.stop()
    env = {**os.environ, "HEADWAY_SERVER_WAIT_S": "3m"}
    with subprocess.Popen(
        [*HEADWAY, "ps"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stderr is not None
        said = command.stderr.readline()
        fake.restart()
        out, rest = command.communicate(timeout=PATIENCE_S)
    assert said.startswith(f"headway: no answer from {fake.url}: connection refused; waiting up to ")
    assert command.returncode == 0
    assert "j1" in out
    assert rest == ""
