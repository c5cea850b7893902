"""A shared server as its people meet it: real processes, TLS, the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.control.access.sealing import KeyRing
from headway.control.access.signing_keys import Signing
from tests.accounts.vaults import a_vault
from tests.living import Living
from tests.system_users import local_nodes_of_another
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.real


def a_certificate(place: Path) -> tuple[Path, Path]:
    cert, key = place / "cert.pem", place / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=headway"
    more = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *words.split(), *more], check=True, capture_output=True, timeout=300)
    return cert, key


def a_living(**env: str) -> Living:
    home = Path(tempfile.mkdtemp(prefix="headway-"))
    home.chmod(0o711)  # Local nodes of another user come as far as the place where commands are run.
    (home / "place").mkdir()
    return Living(home, home / "place", {"HEADWAY_HOME": str(home), **env})


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Living]:
    cert, key = a_certificate(tmp_path)
    with local_nodes_of_another() as nodes:
        server = a_living(
            HEADWAY_ACCOUNTS="on",
            HEADWAY_TLS_CERT_FILE=str(cert),
            HEADWAY_TLS_KEY_FILE=str(key),
            HEADWAY_CA_FILE=str(cert),
            HEADWAY_LOCAL_CPUS="2",
            **{f"HEADWAY_{name.upper()}": value for name, value in nodes.items()},
        )
        yield server
        server.end()
        shutil.rmtree(server.home)


def test_a_job_gets_a_secret_kept_elsewhere_only_where_that_was_allowed(shared: Living) -> None:
    with a_vault() as (env, asked):
        shared.ok("server", "start", env=env)
        shared.ok("project", "add", "vision")
        token = shared.ok("user", "add", "mel", "--project", "vision", "-q").strip()
        url = json.loads((shared.home / "state/server.json").read_text())["url"]
        mel = {"HEADWAY_SERVER_URL": url, "HEADWAY_TOKEN": token}
        steal = ("secret", "set", "steal", "--project", "vision", "--reference", "vault://kv/finance/prod-db#password")
        refused = shared.run(*steal, env=mel)
        assert refused.returncode == 4
        assert "headway project references vision --allow" in refused.stderr
        assert shared.run("project", "references", "vision", "--allow", "vault://kv/", env=mel).returncode == 4

        shared.ok("project", "references", "vision", "--allow", "vault://kv/vision/")
        assert shared.ok("project", "references", "vision", env=mel) == "vault://kv/vision/\n"
        shared.ok("secret", "set", "hf", "--project", "vision", "--reference", "vault://kv/vision/hf#token", env=mel)
        words = ("run", "-d", "-o", "name", "--project", "vision", "--secret", "HF=hf", "--", "sh", "-c", "test -n $HF")
        job = shared.ok(*words, env=mel).strip()
        assert shared.wait(job)["state"] == "succeeded"
        assert asked == ["/v1/kv/data/vision/hf"]
        shared.ok("project", "references", "vision", "--rm", "vault://kv/vision/")
        assert shared.wait(shared.ok(*words, env=mel).strip())["cause"] == "secret_missing"
        assert asked == ["/v1/kv/data/vision/hf"]
        said = [each for each in json.loads(shared.ok("audit", "--json"))["entries"] if each["what"] == "secrets.read"]
        assert [each["outcome"] for each in said] == ["done", "refused"]
        assert said[0]["detail"] == f"for job {job} of mel, attempt 1"


def test_people_sign_in_over_tls_and_train(shared: Living, tmp_path: Path) -> None:
    shared.ok("server", "start")
    url = json.loads((shared.home / "state/server.json").read_text())["url"]
    assert url.startswith("https://")
    # The house's token, on the server's own machine, is the first admin's door.
    shared.ok("project", "add", "vision")
    token = shared.ok("user", "add", "mel", "--project", "vision", "-q").strip()
    assert token.startswith("hw_")

    mel = a_living(HEADWAY_SERVER_URL=url, HEADWAY_CA_FILE=shared.env["HEADWAY_CA_FILE"])
    try:
        assert mel.run("whoami").returncode == 4
        wrong = mel.run("login", input="hw_nonsense_token\n")
        assert wrong.returncode == 4
        assert not (mel.home / "config/logins.json").exists()
        assert "signed in" in mel.ok("login", input=token + "\n")
        assert (mel.home / "config/logins.json").stat().st_mode & 0o777 == 0o600
        assert "member in vision" in mel.ok("whoami")
        mel.script("train.py", "print('trained over TLS')\n")
        job = mel.submit("--", "/usr/bin/env", "python3", "train.py")
        assert mel.wait(job)["state"] == "succeeded"
        shown = mel.job(job)
        assert (shown["user"], shown["project"]) == ("mel", "vision")
        assert "trained over TLS" in mel.log(job)
        long = mel.submit("--name", "long", "--", "sleep", "600")
        wait_until(lambda: mel.job(long)["state"] == "running", what="the job to run")
        assert mel.ok("exec", "long", "--", "echo", "hello") == "hello\n"
        mel.ok("stop", long, "--grace", "0")
        assert mel.run("queue", "set", "night", "priority=1").returncode in (2, 4)
        assert mel.run("user", "ls").returncode == 4

        # Whoever does not trust the certificate does not send the token.
        untrusting = mel.run("ps", env={**shared.env, **mel.env, "HEADWAY_CA_FILE": ""})
        assert untrusting.returncode != 0
        assert "certificate" in untrusting.stderr

        said = json.loads(shared.ok("audit", "--json"))["entries"]
        assert [each["target"] for each in said if each["what"] == "jobs.submit"] == [job, long]
        (visited,) = [each for each in said if each["what"] == "visits.visit"]
        assert (visited["actor"], visited["target"], visited["detail"]) == ("mel", long, "echo hello")
        assert token not in json.dumps(said)

        (mine,) = json.loads(mel.ok("token", "ls", "--json"))["tokens"]
        mel.ok("token", "revoke", mine["prefix"])
        wait_until(lambda: mel.run("ps").returncode == 4, what="the revoked token to be refused")
        assert "signed out" in mel.ok("logout")
    finally:
        shutil.rmtree(mel.home)

    assert "run as one system user" in shared.run("doctor").stdout

    # A node has a token of its own; it opens nothing else.
    nodes = Path(shared.env["HEADWAY_LOCAL_DIR"])
    wait_until(lambda: not list(nodes.rglob("local-1/token")), what="the agent to take its token")
    node_token = Signing(KeyRing(shared.home / "config/secrets.keys")).signer.token_for("local-1")
    refused = shared.run("ps", env={**shared.env, "HEADWAY_TOKEN": node_token, "HEADWAY_SERVER_URL": url})
    assert refused.returncode == 4
    assert "its node alone" in refused.stderr


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"HOST": "0.0.0.0"}, "nobody signs in"),
        ({"HOST": "0.0.0.0", "ACCOUNTS": "on"}, "in the clear"),
        ({"HOST": "0.0.0.0", "ACCOUNTS": "off", "INSECURE_HTTP": "on"}, "nobody signs in"),
        ({"ACCOUNTS": "perhaps"}, "neither on nor off"),
        ({"TLS_CERT_FILE": "/no/such"}, "one is set without the other"),
    ],
)
def test_nothing_is_open_by_accident(settings: dict[str, str], says: str) -> None:
    home = a_living(**{f"HEADWAY_{name}": value for name, value in settings.items()})
    said = home.run("server", "start", "--foreground")
    assert said.returncode != 0
    assert says in said.stderr
    shutil.rmtree(home.home)


def test_a_command_waits_a_moment_for_a_shared_server_that_was_killed(shared: Living) -> None:
    assert "does not run" in shared.run("ps").stderr
    shared.ok("server", "start")
    # The moment is made longer than it is: on a busy machine a server takes its time to start.
    patient = f"from headway.client.connection import embedded; embedded.BROUGHT_BACK_S_MAX = {PATIENCE_S}; "
    words = [
        sys.executable,
        "-c",
        patient + "import sys; from headway.cli.main import main; sys.exit(main())",
        "ps",
        "-q",
    ]
    shared.kill(shared.server)
    waiting = subprocess.Popen(words, env={**os.environ, **shared.env}, stderr=subprocess.PIPE, text=True)
    shared.ok("server", "start")
    said = waiting.communicate(timeout=PATIENCE_S)[1]
    assert waiting.returncode == 0, said
