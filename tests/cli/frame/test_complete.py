"""What Tab offers, asked of a real server; and the scripts in the real shells, where these can be installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.serving import TOKEN, Serving
from tests.packages import missing

BIN = Path(sys.executable).parent


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    with Serving(tmp_path / "storage") as serving:
        monkeypatch.setenv("HEADWAY_SERVER_URL", serving.url)
        monkeypatch.setenv("HEADWAY_TOKEN", TOKEN)
        yield serving


@pytest.fixture
def tab(server: Serving) -> Callable[[str], list[str]]:
    def ask(line: str) -> list[str]:
        words = {"_HEADWAY_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        done = subprocess.run(
            [sys.executable, "-m", "headway.cli.main"], env={**os.environ, **words}, capture_output=True, text=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    return ask


def submit(server: Serving, **words: object) -> str:
    return str(server.ok("POST", "/jobs", {"job": {"command": ["true"], **words}})["job"]["id"])


def test_things_are_offered_by_name_after_their_noun(server: Serving, tab: Callable[[str], list[str]]) -> None:
    server.ok("PATCH", "/queues/night", {"priority": 3})
    assert "plain,night" in tab("headway queue show ")
    assert "plain,night" in tab("headway run --queue ni")
    assert "plain,night" in tab("headway queue rm ")
    assert "plain,local" in tab("headway pool show ")
    assert tab("headway queue show zz") == []


def test_a_verb_is_offered_the_jobs_that_it_is_for(server: Serving, tab: Callable[[str], list[str]]) -> None:
    waiting = submit(server, name="waiting")
    stopped = submit(server, name="stopped")
    server.ok("POST", f"/jobs/{stopped}/stop", {})
    assert {f"plain,{waiting}", "plain,waiting"} <= set(tab("headway stop "))
    assert "plain,stopped" not in tab("headway stop ")
    assert tab("headway rm st") == ["plain,stopped"]
    assert {"plain,stopped", "plain,waiting"} <= set(tab("headway logs "))


def test_tags_are_offered_as_they_were_given(server: Serving, tab: Callable[[str], list[str]]) -> None:
    submit(server, tags={"team": "vision"})
    assert tab("headway run --tag te") == ["plain,team=vision"]


def test_states_and_settings_need_no_server(tab: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SERVER_URL", "http://127.0.0.1:9")
    assert tab("headway ps --state ru") == ["plain,running"]
    assert tab("headway ps --state running,fa") == ["plain,running,failed"]
    assert tab("headway config show local_n") == ["plain,local_nodes"]
    assert tab("headway queue show ") == []


def test_files_are_offered_where_files_are_meant(tab: Callable[[str], list[str]]) -> None:
    assert tab("headway run tr") == ["file,tr"]
    assert tab("headway run -f jo") == ["file,jo"]
    assert tab("headway run --workdir d") == ["dir,d"]


def test_words_of_former_versions_are_completed_but_not_offered(tab: Callable[[str], list[str]]) -> None:
    assert tab("headway nod") == ["plain,node"]
    assert "plain,cordon" in tab("headway nodes ")


# Each loads the script and prints what Tab would offer for `headway queue show ni`.
BASH = """
source "$1"; COMP_WORDS=(headway queue show ni); COMP_CWORD=3
_headway_completion headway
echo "${COMPREPLY[@]}"
"""
ZSH = """
compdef() { : }
compadd() { print -l -- $completions }
_describe() { print -l -- $completions_with_descriptions }
source "$1"; words=(headway queue show ni); CURRENT=4
_headway_completion
"""
FISH = 'source "$argv[1]"; complete -C "headway queue show ni"'
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@pytest.mark.parametrize("shell", list(SHELLS))
def test_the_shell_itself_offers_what_is_there(server: Serving, shell: str, tmp_path: Path) -> None:
    server.ok("PATCH", "/queues/night", {"priority": 3})
    lacking = missing([shell], shell)
    if lacking:
        pytest.skip(lacking)
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    script = tmp_path / "script"
    script.write_text(subprocess.run([BIN / "headway", "completion", shell], capture_output=True, text=True).stdout)
    words = [shell, "-c", SHELLS[shell], *([] if shell == "fish" else [shell]), str(script)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    assert "night" in done.stdout, done
