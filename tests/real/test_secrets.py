"""Secrets with real processes: ranks have them, and nobody else sees them, in no log, event, error, file or answer."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import headway
from headway.control.access.sealing import new_key_line
from headway.core.errors import NotFound, OperatorError, Unavailable
from headway.features.secrets.references import resolve
from tests.living import Living
from tests.real.clouds import cloud_python
from tests.waiting import wait_until

pytestmark = pytest.mark.real
VALUE = "hf_" + "q7Zk9x" * 4


def seen_anywhere(living: Living, value: str) -> list[str]:
    """Files of the whole home that have the value in them; those of a task that runs are its own."""
    found = subprocess.run(["grep", "-rlaF", value, str(living.home)], capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if "/tasks/" not in line]


def test_ranks_have_the_value_and_nobody_else_sees_it(living: Living) -> None:
    living.ok("secret", "set", "hf-token", input=VALUE + "\n")
    script = "import hashlib, os, sys\nvalue = os.environ['HF_TOKEN']\n"
    script += "print('digest', hashlib.sha256(value.encode()).hexdigest())\nprint('token', value, flush=True)\n"
    script += "print(open(os.environ['KEY']).read(), os.stat(os.environ['KEY']).st_mode & 0o777)\n"
    script += "sys.stdout.write(value[:9]); sys.stdout.flush()\n"
    script += "open('half', 'w').close()\n"
    script += "import time\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
    script += "sys.stdout.write(value[9:] + ' end\\n')\nraise ValueError('bad token ' + value)\n"
    living.script("leaky.py", script)
    job = living.submit("--secret", "HF_TOKEN=hf-token", "--secret-file", "KEY=hf-token", "leaky.py")
    wait_until(lambda: (living.place / "half").exists(), what="half of the value to be written")
    wait_until(lambda: "digest" in living.log(job), what="the first lines to be shipped")
    assert VALUE[:9] not in living.log(job)
    living.kill(living.agent)  # The next agent has to cover it too.
    (living.place / "go").touch()
    ended = living.wait(job)
    stars = "*" * len(VALUE)
    assert ended["cause"] == "user_code"
    assert f"bad token {stars}" in ended["sentence"]
    log = living.log(job)
    assert f"digest {hashlib.sha256(VALUE.encode()).hexdigest()}" in log
    assert f"token {stars}\n{stars} 384\n{stars} end" in log
    assert VALUE not in log
    wait_until(lambda: not seen_anywhere(living, VALUE), what="the last copy to go with the task")
    shown = living.ok("secret", "ls", "--json") + living.ok("describe", job, "--json")
    assert "hf-token" in shown
    assert VALUE not in shown


def test_what_is_not_there_is_told_at_submission_or_as_the_cause(living: Living) -> None:
    living.ok("secret", "set", "hf-token", input=VALUE)
    wrong = living.run("run", "--secret", "A=hf-tokn", "--", "true")
    assert wrong.returncode == 2
    assert 'did you mean "hf-token"' in wrong.stderr
    assert living.run("secret", "set", "short", input="abc").returncode == 2
    assert living.run("secret", "set", "a/b", input=VALUE).returncode == 2
    assert living.run("secret", "rm", "other").returncode == 5
    held = living.submit("--hold", "--secret", "A=hf-token", "--", "true")
    living.ok("secret", "rm", "hf-token")
    living.ok("release", held)
    ended = living.wait(held)
    assert (ended["state"], ended["cause"]) == ("failed", "secret_missing")


def test_keys_rotate(living: Living) -> None:
    living.ok("secret", "set", "hf-token", input=VALUE)
    keys = living.home / "config/secrets.keys"
    old = keys.read_text()
    keys.write_text(new_key_line() + old)
    rotated = json.loads(living.ok("secret", "rotate", "--json"))
    assert (rotated["sealed"], rotated["key"]) == (1, keys.read_text().split()[0])
    keys.write_text(keys.read_text().replace(old, ""))
    job = living.submit("--secret", "A=hf-token", "--", "sh", "-c", f"test $A = {VALUE}")
    assert living.wait(job)["state"] == "succeeded"
    keys.write_text(new_key_line())
    lost = living.run("secret", "rotate")
    assert lost.returncode != 0
    assert "does not have" in lost.stderr


class Vault(BaseHTTPRequestHandler):
    """The one call of a KV engine of version 2 that is used, with its check of the token."""

    def do_GET(self) -> None:
        token, known = self.headers.get("X-Vault-Token"), self.path == "/v1/kv/data/team/hf"
        status = 403 if token != "t0ken" else 200 if known else 404
        body = json.dumps({"data": {"data": {"token": VALUE, "n": 3}}} if status == 200 else {"errors": []}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def vault() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Vault)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_reference_is_resolved_when_it_is_used(living: Living, vault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    living.env.update(VAULT_ADDR=vault, VAULT_TOKEN="t0ken")
    living.ok("secret", "set", "far", "--reference", "vault://kv/team/hf#token")
    job = living.submit("--secret", "A=far", "--", "sh", "-c", f"test $A = {VALUE} && echo it is $A")
    assert living.wait(job)["state"] == "succeeded"
    assert living.log(job) == f"it is {'*' * len(VALUE)}\n"
    assert living.run("secret", "set", "far", "--reference", "ftp://a/b").returncode == 2
    living.ok("secret", "set", "small", "--reference", "vault://kv/team/hf#n")
    ended = living.wait(living.submit("--secret", "A=small", "--", "true"))
    assert (ended["state"], ended["cause"]) == ("failed", "secret_missing"), "one byte could not be covered in a log"
    assert "vault://kv/team/hf#n: a secret of 1 bytes" in ended["sentence"]
    monkeypatch.setenv("VAULT_ADDR", vault)
    monkeypatch.setenv("VAULT_TOKEN", "t0ken")
    assert resolve("vault://kv/team/hf#n") == "3"
    for reference in ("vault://kv/team/other#token", "vault://kv/team/hf#none"):
        with pytest.raises(NotFound):
            resolve(reference)
    monkeypatch.setenv("VAULT_TOKEN", "wrong")
    with pytest.raises(Unavailable, match="403"):
        resolve("vault://kv/team/hf#token")
    monkeypatch.delenv("VAULT_ADDR")
    with pytest.raises(OperatorError, match="VAULT_ADDR"):
        resolve("vault://kv/team/hf#token")


# Runs where the cloud's library is: AWS Secrets Manager as moto serves it over HTTP, and our own reading of it.
AWS = """
import json, os, sys, time
import boto3
import headway
from headway.features.secrets.references import resolve
from headway.core.errors import HeadwayError
there = boto3.client("secretsmanager", region_name="eu-west-1")
for _ in range(600):
    try:
        there.create_secret(Name="team/hf", SecretString=json.dumps({"token": "hf_abcdefgh", "n": 3}))
        break
    except Exception:
        time.sleep(0.1)
there.create_secret(Name="binary", SecretBinary=b"raw-bytes")
there.create_secret(Name="odd", SecretBinary=bytes([255, 254]))
said = {}
for place in ("team/hf#token", "team/hf#n", "team/hf#none", "binary", "odd", "none"):
    try:
        said[place] = resolve("aws://eu-west-1/" + place)
    except HeadwayError as error:
        said[place] = type(error).__name__ + ": " + error.message
there.put_secret_value(SecretId="team/hf", SecretString=json.dumps({"token": "hf_rotated"}))
said["rotated"] = resolve("aws://eu-west-1/team/hf#token")
os.environ["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
try:
    resolve("aws://eu-west-1/binary")
except HeadwayError as error:
    said["away"] = type(error).__name__ + ": " + error.message
print(json.dumps(said))
"""


def test_references_to_aws_are_read_over_http() -> None:
    python = cloud_python()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    quiet = subprocess.DEVNULL
    served = subprocess.Popen([python, "-m", "moto.server", "-H", "127.0.0.1", "-p", port], stdout=quiet, stderr=quiet)
    env = {
        **os.environ,
        "PYTHONPATH": str(Path(headway.__file__).parents[1]),
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    env |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    try:
        done = subprocess.run([python, "-c", AWS], env=env, capture_output=True, text=True, timeout=180)
    finally:
        served.terminate()
        served.wait(30)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said.pop("away").startswith("Unavailable: aws://eu-west-1/binary cannot be read: EndpointConnectionError")
    assert said == {
        "team/hf#token": "hf_abcdefgh",
        "team/hf#n": "3",
        "team/hf#none": 'NotFound: aws://eu-west-1/team/hf#none: there is no "none" in what it holds',
        "binary": "raw-bytes",
        "odd": "NotFound: eu-west-1/odd: what it holds is not text",
        "none": "NotFound: aws://eu-west-1/none: there is no such secret",
        "rotated": "hf_rotated",
    }


def test_a_cloud_whose_library_is_missing_says_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(OperatorError, match="boto3") as caught:
        resolve("aws://eu-west-1/name")
    assert "headway[aws]" in caught.value.hint


def test_a_shared_server_makes_no_keys_of_its_own(tmp_path: Path) -> None:
    from headway.settings import Settings, home_from
    from headway.wiring import key_ring

    home = home_from({"HEADWAY_HOME": str(tmp_path)})
    assert key_ring(Settings(), home).newest
    with pytest.raises(OperatorError, match="no key file"):
        _ = key_ring(Settings(store_url="postgresql://db/headway", secrets_key_file=str(tmp_path / "no")), home).newest
