"""What Slurm is given for an order: the words for sbatch, the script, and the few lines that begin on each node.

Pure: the same order gives the same text. No token stands in it, for Slurm keeps it: each node is given its own by the
server, once, for a code that is good for nothing else.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from headway.core.growth.grow import Order
from headway.core.model import Pool

RESTARTS_MOST = 3  # So often may Slurm requeue an order; then it ends, and a new one takes its place.

# Runs on each node. Fetches the agent from the server, which the node must reach anyway, and becomes it.
BEGIN = """import hashlib, hmac, json, os, shutil, signal, stat, sys, time, urllib.request
said = json.load(sys.stdin)
restart = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
node = "%s-%s" % (said["order"], os.environ["SLURM_NODEID"]) + ("-r%d" % restart if restart else "")
if node not in said["codes"]:
    sys.exit("headway: %s was started too often" % node)
base = os.path.join(said["node_dir"] or "/tmp", "headway-%d" % os.getuid())
place = os.path.join(base, node)
os.makedirs(base, 0o700, exist_ok=True)
if os.lstat(base).st_uid != os.getuid() or not stat.S_ISDIR(os.lstat(base).st_mode):
    sys.exit("headway: %s belongs to somebody else" % base)
def leave(said):
    shutil.rmtree(place, ignore_errors=True)
    sys.exit(said)
# Given back before there was an agent: nothing stays here, least of all a token.
signal.signal(signal.SIGTERM, lambda *_: leave("headway: %s was given back" % node))
os.makedirs(place, 0o700, exist_ok=True)
def put(name, content):
    with open(os.open(os.path.join(place, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
code = said.pop("codes")[node]
said["node"] = node
handlers = [urllib.request.ProxyHandler({})]
if said.get("ca"):
    import ssl
    trusted = ssl.create_default_context()
    trusted.load_verify_locations(cadata=said["ca"])
    handlers.append(urllib.request.HTTPSHandler(context=trusted))
    put("ca.pem", said["ca"].encode())  # The agent finds it there, too.
put("server.json", json.dumps({"url": said["urls"]}).encode())
put("ordered.json", json.dumps(said).encode())
def ask(url, key, method, path):  # Both sides prove that they have the key; it does not travel.
    def mark(*words):
        return hmac.new(key.encode(), "\\n".join(map(str, words)).encode(), "sha256").hexdigest()
    def call(method, path, challenge):
        number, nothing = os.urandom(8).hex() + "-1", hashlib.sha256(b"").hexdigest()
        proof = mark("request", method, path, challenge, number, nothing, "")
        words = ["Headway", key.partition(".")[0], challenge or "-", number, proof]
        head = {"Authorization": " ".join(words), "Headway-Sha256": nothing}
        asked = urllib.request.Request(url + path, b"" if method == "POST" else None, head, method=method)
        with opener.open(asked, timeout=60) as answer:
            body = answer.read()
            seal = mark("answer", number, answer.status, hashlib.sha256(body).hexdigest())
            if not hmac.compare_digest(seal, answer.headers.get("Headway-Seal") or ""):
                raise OSError("it does not prove to be the server")
        return body
    return call(method, path, json.loads(call("GET", "/agent/hello", ""))["challenge"])
until = time.monotonic() + said["dead_man_s"]
opener = urllib.request.build_opener(*handlers)
while True:
    for url in said["urls"].split(","):
        try:
            token = json.loads(ask(url, code, "POST", "/agent/token"))["token"]
            put("token", token.encode())
            put("agent.pyz", ask(url, token, "GET", "/agent.pyz"))
            os.execv(sys.executable, [sys.executable, "-I", "-S", place + "/agent.pyz", "ordered", "--node-dir", place])
        except OSError as error:
            problem = "%s: %s" % (url, error)
    if time.monotonic() > until:
        leave("headway: no agent from " + problem)
    time.sleep(2)
"""

SCRIPT = """#!/bin/sh
# Headway's order {order}: one agent on each node. It ends by itself when nobody needs it any more.
# Slurm's warning goes to the one process on each node that knows what to do with it, not to all that run there.
notice() {{ {warn} sh -c {tell}; }}
trap notice USR1
trap : TERM
{srun} {python} -I -S -c {begin} <<'HEADWAY' &
{said}
HEADWAY
step=$!
while kill -0 "$step" 2>/dev/null; do wait "$step"; done
"""


def sbatch_words(order: Order, pool: Pool, given: Mapping[str, Any], house: str) -> list[str]:
    """The flags of sbatch, from the pool's shape and options."""
    count = len(order.nodes)
    words = [
        "--parsable",
        f"--job-name={job_name(house, order.id)}",
        f"--comment=headway:{house}:{pool.name}",
        # One allocation at a time has this name, whatever becomes of our calls: twice is once.
        "--dependency=singleton",
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        *_shape(pool),
        "--requeue" if given.get("requeue") in ("yes", "true") else "--no-requeue",
        f"--signal=B:USR1@{int(given['notice_s'])}",
        f"--output={given.get('output') or '/dev/null'}",
        "--chdir=/",
    ]
    words += [f"--{name}={given[name]}" for name in ("partition", "account", "qos", "constraint") if given.get(name)]
    if given.get("gres"):
        words = [word for word in words if not word.startswith("--gres=")] + [f"--gres={given['gres']}"]
    if given.get("life_s"):
        words.append(f"--time={max(1, round(given['life_s'] / 60))}")
    return words + shlex.split(str(given.get("sbatch", "")))


def script(order: Order, pool: Pool, given: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    count = len(order.nodes)
    srun = f"srun --nodes={count} --ntasks={count} --ntasks-per-node=1 --cpus-per-task={_cpus(pool)}"
    srun += " --kill-on-bad-exit=0 --wait=0 --mpi=none --unbuffered"
    base = f"{shlex.quote(str(given.get('node_dir') or '/tmp'))}/headway-$(id -u)"
    warn = f"srun --overlap --nodes={count} --ntasks={count} --ntasks-per-node=1 --mpi=none"
    tell = shlex.quote(TELL.format(base=base, order=order.id))
    content = json.dumps(said, sort_keys=True, indent=1)
    return SCRIPT.format(
        order=order.id,
        srun=srun,
        warn=warn,
        tell=tell,
        python=shlex.quote(given["python"]),
        begin=shlex.quote(BEGIN),
        said=content,
    )


# A step of its own that finds its node's process by its file.
TELL = 'for f in {base}/{order}-"$SLURM_NODEID"/ordered.pid {base}/{order}-"$SLURM_NODEID"-r*/ordered.pid; do'
TELL += ' [ -e "$f" ] && kill -USR1 "$(cat "$f")"; done; true'


def job_name(house: str, order: str) -> str:
    return f"headway-{house}-{order}"


def _cpus(pool: Pool) -> int:
    assert pool.shape is not None
    return max(1, int(pool.shape.cpus))


def _shape(pool: Pool) -> list[str]:
    shape = pool.shape
    assert shape is not None
    words = [f"--cpus-per-task={_cpus(pool)}"]
    if shape.memory_bytes:
        words.append(f"--mem={max(1, shape.memory_bytes >> 20)}M")
    if shape.gpus:
        words.append(f"--gres=gpu:{pool.gpu_type + ':' if pool.gpu_type else ''}{shape.gpus}")
    return words
