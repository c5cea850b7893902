"""What Slurm is given: the words of sbatch, no secret among them, and what squeue says in both of its languages."""

from __future__ import annotations

import io
import json
import os
import ssl
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from headway.core.errors import BadInput
from headway.core.growth.grow import Order
from headway.core.model import Pool, Resources
from headway.engines.slurm.engine import SlurmEngine, _from_columns, _from_json, read_options
from headway.engines.slurm.script import BEGIN
from headway.settings import Settings
from tests.agent.sealed_home import HELLO, proven, seal
from tests.certificates import certified

OPTIONS = {"partition": "gpu", "account": "vision", "time": "8h", "notice": "5m", "sbatch": "--exclude=bad1 --nice=5"}
POOL = Pool("lab", "slurm", 0, 4, shape=Resources(8.0, 32 << 30, 2), gpu_type="a100", options=OPTIONS)
CODE, TOKEN = "hwe_bGFi.the-code", "hwn_bGFi.the-token"
ORDER = Order("lab-ab12", "lab", ("lab-ab12-0", "lab-ab12-1"))


def test_the_request_is_exactly_what_would_be_sent_and_holds_no_token() -> None:
    engine = SlurmEngine(POOL, "k7m2", "http://head:8080", lambda node: f"secret-{node}", Settings(), {})
    text = engine.render(ORDER).text
    assert text["argv"] == [
        "sbatch", "--parsable", "--job-name=headway-k7m2-lab-ab12", "--comment=headway:k7m2:lab",
        "--dependency=singleton", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=8", "--mem=32768M",
        "--gres=gpu:a100:2", "--no-requeue", "--signal=B:USR1@300", "--output=/dev/null", "--chdir=/",
        "--partition=gpu", "--account=vision", "--time=480", "--exclude=bad1", "--nice=5",
    ]  # fmt: skip
    assert "secret" not in str(text)
    assert "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=8" in text["script"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"options": {"partitoin": "x"}}, "partitoin"),
        ({"shape": None}, "shape"),
        ({"options": {"time": "5s"}}, "minute"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, object], said: str) -> None:
    from dataclasses import replace

    with pytest.raises(BadInput, match=said):
        read_options(replace(POOL, **changes))  # type: ignore[arg-type]


def test_both_languages_of_squeue_are_understood() -> None:
    old = {"job_id": 7, "name": "n", "job_state": "RUNNING", "state_reason": "None", "node_count": 2}
    new = {**old, "job_state": ["RUNNING"], "node_count": {"set": True, "infinite": False, "number": 2}}
    limits = (
        {"end_time": 160, "time_limit": 1},
        {"end_time": {"set": True, "number": 160}, "time_limit": {"set": True, "number": 1}},
    )
    assert _from_json({**old, **limits[0]}, 100.0) == _from_json({**new, **limits[1]}, 100.0)
    columns = _from_columns(["7", "n", "RUNNING", "None", "2", "0", "1:00", ""])
    assert columns == _from_json({**old, **limits[0]}, 100.0)
    assert _from_columns(["7", "n", "PENDING", "Priority", "2", "1", "1-00:00:01", ""]).left_s == 86401.0
    assert _from_columns(["7", "n", "PENDING", "Priority", "2", "1", "UNLIMITED", ""]).left_s is None


def test_a_node_trusts_the_certificates_that_the_server_names(tmp_path: Path) -> None:
    """The lines that begin on a node, for real, against a server whose certificate nobody else vouches for."""
    proof, genuine = io.BytesIO(), True
    with zipfile.ZipFile(proof, "w") as program:
        program.writestr("__main__.py", "import sys; print(open(sys.argv[-1] + '/ca.pem').read())")

    class Hands(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer(CODE, b'{"token": "%s"}' % TOKEN.encode())

        def do_GET(self) -> None:
            secret = CODE if CODE.partition(".")[0] in self.headers["Authorization"] else TOKEN
            self._answer(secret, HELLO if self.path == "/agent/hello" else proof.getvalue())

        def _answer(self, secret: str, body: bytes) -> None:
            status = 200 if proven(secret, self.command, self.path, dict(self.headers)) else 401
            self.send_response(status)
            marks = seal(secret, dict(self.headers), status, body) if genuine else {}
            for name, value in marks.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    ours = certified(tmp_path)
    server = HTTPServer(("127.0.0.1", 0), Hands)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours.cert, ours.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for ca, genuine in ((str(ours.ca), True), (str(ours.ca), False), ("", True)):
            url = f"https://127.0.0.1:{server.server_port}"
            engine = SlurmEngine(POOL, "k7m2", url, lambda node: f"secret-{node}", Settings(ca_file=ca), {})
            said = engine.render(ORDER).text["said"]
            said |= {"codes": {"lab-ab12-0": CODE}, "node_dir": str(tmp_path), "dead_man_s": 0}
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", BEGIN],
                input=json.dumps(said),
                env={**os.environ, "SLURM_NODEID": "0"},
                capture_output=True,
                text=True,
                timeout=120,
            )
            if not genuine:
                assert "it does not prove to be the server" in done.stderr
                assert not list(tmp_path.glob("headway-*/lab-ab12-0/token")), "nothing stays"
            elif ca:
                assert done.stdout.strip() == ours.ca.read_text().strip(), done.stderr
                (token,) = tmp_path.glob("headway-*/lab-ab12-0/token")
                assert (token.read_text(), token.stat().st_mode & 0o777) == (TOKEN, 0o600)
            else:
                assert "CERTIFICATE_VERIFY_FAILED" in done.stderr
    finally:
        server.shutdown()
        server.server_close()
