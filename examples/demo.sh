#!/usr/bin/env bash
# A training job that loses its node's agent and its server half way, and finishes all the same.
# Everything happens in a private HEADWAY_HOME that is removed at the end. Run it with `make demo`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
for name in $(compgen -e | grep '^HEADWAY_' || true); do unset "$name"; done
HEADWAY_HOME=$(mktemp -d "${TMPDIR:-/tmp}/headway-demo-XXXXXX")
export HEADWAY_HOME
node="$HEADWAY_HOME/state/nodes/local-1"
steps=24

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\033[1m' plain=$'\033[0m'; fi
heading() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
show() { printf '$ %s\n' "$*"; "$@"; }
fail() { printf '\nDEMO FAILED: %s\n' "$*" >&2; exit 1; }
pid_in() { sed -E 's/.*"pid": *([0-9]+).*/\1/' "$1"; }
alive() { [ -d "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }

clean_up() {
	code=$?
	set +e
	headway server stop >/dev/null 2>&1
	[ -f "$node/agent.pyz" ] && python3 -I -S "$node/agent.pyz" release --node-dir "$node" >/dev/null 2>&1
	rm -rf "$HEADWAY_HOME"
	exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# The log up to now holds at least this step.
reached() {
	for _ in $(seq 150); do
		headway logs "$job" 2>/dev/null | grep -q "^step *$1 " && return 0
		sleep 0.2
	done
	fail "step $1 was not seen within 30 s"
}

heading "Submit a training job and let go of it (the first command starts the server by itself)"
printf '$ headway run -d -o name --name digits examples/train.py --steps %s --step-s 0.5\n' "$steps"
job=$(headway run -d -o name --name digits "$here/train.py" --steps "$steps" --step-s 0.5)
echo "$job"

heading "It runs headless, and its log can be read"
reached 8
show headway ps
show headway logs "$job" --tail 3
rank=$(headway logs "$job" | sed -n 's/^pid \([0-9]*\),.*/\1/p')
agent=$(pid_in "$node/agent.pid")
server=$(pid_in "$HEADWAY_HOME/state/server.json")
echo "the rank is pid $rank, the node's agent is pid $agent, the server is pid $server"

heading "kill -9 the agent and the server, both at once"
show kill -9 "$agent" "$server"
sleep 2
alive "$agent" && fail "the agent (pid $agent) is still alive"
alive "$server" && fail "the server (pid $server) is still alive"
alive "$rank" || fail "the rank (pid $rank) died with them"
echo "agent and server are gone; the rank, pid $rank, goes on computing"

heading "Come back: any command starts the server again, and the server starts the agent"
show headway ps
show headway logs "$job" -f
show headway wait "$job"

heading "What is left: one attempt, every step once"
show headway describe "$job"
log=$(headway logs "$job" 2>/dev/null)
[ "$(grep -c '^pid ' <<<"$log")" = 1 ] || fail "the training was started more than once"
[ "$(sed -n 's/^pid \([0-9]*\),.*/\1/p' <<<"$log")" = "$rank" ] || fail "the rank is another process than before"
[ "$(headway checkpoint ls "$job" -q | head -n 1)" = "$steps" ] || fail "its last checkpoint is not that of step $steps"
diff <(sed -n 's/^step *\([0-9]*\) .*/\1/p' <<<"$log") <(seq "$steps") >/dev/null ||
	fail "the log does not hold the steps 1 to $steps exactly once:
$log"
[ "$(headway ps -a --json | python3 -c 'import json, sys
print(*(each["state"] for each in json.load(sys.stdin)["jobs"]))')" = succeeded ] || fail "the job did not succeed"
echo
echo "The log holds the steps 1 to $steps exactly once, all written by pid $rank: checked."
