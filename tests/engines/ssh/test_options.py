from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.core.errors import BadInput
from headway.core.model import Pool, Resources
from headway.engines.ssh.client import SshHost
from headway.engines.ssh.engine import is_loopback
from headway.engines.ssh.options import hosts_of, read_options


def a_pool(**options: Any) -> Pool:
    return Pool("lab", "ssh", shape=Resources(2.0, 1 << 30, 0), options={"hosts": ["h1", "ada@h2:22"], **options})


def test_words_for_one_host_outrank_those_for_all() -> None:
    found = hosts_of(a_pool(python="python3.9", gpus="4", host={"h2": {"python": "/opt/py", "call_home": "tunnel"}}))
    assert (found["lab-h1"].python, found["lab-h1"].gpus, found["lab-h1"].call_home) == ("python3.9", 4, "auto")
    assert (found["lab-h2"].python, found["lab-h2"].gpus, found["lab-h2"].call_home) == ("/opt/py", 4, "tunnel")
    assert (found["lab-h2"].host.user, found["lab-h2"].host.port, found["lab-h2"].cpus) == ("ada", 22, 2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"call_home": "phone"}, "is not one of auto, direct, tunnel"),
        ({"pyton": "x"}, 'unknown key "pyton"'),
        ({"host": {"h3": {}}}, 'unknown key "h3"'),
        ({"host": {"h1": {"pyton": ""}}}, 'unknown key "pyton"'),
        ({"host": "h1"}, "expected hosts and their words"),
        ({"directory": "~/a b"}, "is not a path"),
        ({"directory": '~/a"; rm x'}, "is not a path"),
        ({"python": "$(x)"}, "is not a path"),
        ({"ssh_options": "ProxyJump"}, "is not Key=Value"),
        ({"connect_s_max": "soon"}, "is not a number"),
        ({"cpus": True}, "is not a number"),
    ],
)
def test_nonsense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_options(a_pool(**options))


def test_a_pool_without_hosts_is_refused() -> None:
    with pytest.raises(BadInput, match="needs hosts"):
        read_options(Pool("lab", "ssh"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:1", True),
        ("http://[::1]:1", True),
        ("http://0.0.0.0:1", True),
        ("http://localhost:1", True),
        ("http://10.0.0.1:1", False),
        ("https://lab.example", False),
    ],
)
def test_loopback_means_another_machine_elsewhere(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


@pytest.mark.parametrize(
    ("complaint", "expected"),
    [
        ("h2 cannot be reached: connect to host h2: No route to host", "machine: ssh -F /x -p 22 -l ada h2 true"),
        ("h2 cannot be reached: Host key verification failed.", "StrictHostKeyChecking=accept-new"),
        ("h2 cannot be reached: ada@h2: Permission denied (publickey).", "by a key, without a password"),
    ],
)  # fmt: skip
def test_a_host_that_does_not_answer_is_told_with_what_to_try(tmp_path: Path, complaint: str, expected: str) -> None:
    host = SshHost(hosts_of(a_pool(ssh_config="/x"))["lab-h2"], tmp_path)
    assert expected in host.remedy(complaint)
