"""Which server commands work with: chosen by name, by signing in, or by a variable, which then is said."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway import __version__, settings
from headway.client.connection import contexts
from headway.core.errors import BadInput
from tests.client.fake_server import TOKEN, FakeServer


@pytest.fixture
def home(headway_home: Path) -> settings.Home:
    return settings.home_from(os.environ)


def test_without_any_the_server_of_this_machine_is_used(home: settings.Home, headway: Callable) -> None:
    assert " ".join(headway("context", "ls").out.split()) == "CONTEXT SERVER SIGNED IN local of this machine – used"
    assert headway("context", "show").out == "the server of this machine (from: built in)\n"


def test_signing_in_adds_a_context_and_chooses_it(
    home: settings.Home, fake: FakeServer, headway: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HEADWAY_SERVER_URL")
    monkeypatch.delenv("HEADWAY_TOKEN")
    (tmp_path / "token").write_text(TOKEN)
    with open(tmp_path / "token") as given:
        monkeypatch.setattr(sys, "stdin", given)
        said = headway("login", "--server", fake.url, "--context", "lab")
    assert said.out == f'signed in to {fake.url} as mel; commands work with it from now on (context "lab")\n'
    assert headway("context", "show", "--json").json == {"name": "lab", "server": fake.url, "source": "context lab"}
    fake.add("j1")
    assert headway("ps", "-q").out == "j1\n"
    assert headway("context", "rm", "lab").out == (
        f"lab ({fake.url}) is forgotten; commands work with the server of this machine\n"
    )
    assert headway("context", "ls", "-q").out == "local\n"
    assert "signed out" not in headway("logout", "--server", fake.url).out, "its token is forgotten too"


def test_one_is_used_by_name_or_by_address(home: settings.Home, headway: Callable) -> None:
    assert contexts.remember(home, "https://train.example.org/") == "train.example.org"
    assert contexts.remember(home, "https://train.example.org:8400") == "train.example.org-8400"
    contexts.remember(home, "https://other.example.org", "lab")
    headway("context", "use", "https://train.example.org")
    assert headway("context", "show", "-q").out == "train.example.org\n"
    assert headway("context", "use", "lab").out == "commands work with https://other.example.org\n"
    said = headway("context", "use", "lap")
    assert (said.code, said.err) == (5, 'error: no context "lap"\nhint: did you mean "lab"?\n')
    assert headway("context", "use", "local").out == "commands work with the server of this machine\n"


def test_a_context_goes_before_a_file_and_a_variable_before_both(
    home: settings.Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.config.mkdir(parents=True)
    (home.config / "config.toml").write_text('server_url = "https://file.example.org"\n')
    assert settings.load().settings.server_url == "https://file.example.org"
    contexts.choose(home, contexts.remember(home, "https://train.example.org", "lab"))
    assert settings.load().settings.server_url == "https://train.example.org"
    contexts.choose(home, "local")
    assert settings.load().settings.server_url == ""
    monkeypatch.setenv("HEADWAY_CONTEXT", "lab")
    assert settings.load().settings.server_url == "https://train.example.org"
    monkeypatch.setenv("HEADWAY_SERVER_URL", "https://variable.example.org")
    assert settings.load().settings.server_url == "https://variable.example.org"


def test_a_command_names_the_server_when_a_variable_leads_to_another_than_the_usual(
    home: settings.Home, fake: FakeServer, headway: Callable
) -> None:
    fake.add("j1")
    assert headway("ps").err == "", "where nothing was chosen, the variable names the usual one"
    contexts.choose(home, contexts.remember(home, "https://train.example.org", "lab"))
    assert headway("ps").err == f"headway: on {fake.url} (HEADWAY_SERVER_URL), not on https://train.example.org\n"
    assert headway("ps", "-q").err == ""
    contexts.choose(home, contexts.remember(home, fake.url, "here"))
    assert headway("ps").err == ""


def test_a_context_that_is_not_there_is_named_with_those_that_are(
    home: settings.Home, headway: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts.remember(home, "https://train.example.org", "lab")
    monkeypatch.setenv("HEADWAY_CONTEXT", "lap")
    said = headway("ps")
    assert (said.code, said.err) == (2, 'error: HEADWAY_CONTEXT: no context "lap"\nhint: there are local, lab\n')


@pytest.mark.parametrize("name", ["local", "two words", "-x", "x" * 80])
def test_some_words_cannot_be_names(home: settings.Home, name: str) -> None:
    with pytest.raises(BadInput, match="cannot be the name"):
        contexts.remember(home, "https://train.example.org", name)


def test_a_server_of_another_version_is_told_once(home: settings.Home, fake: FakeServer, headway: Callable) -> None:
    fake.add("j1")
    fake.version = "9.9.9"
    assert headway("ps").err.startswith("headway: the server has version 9.9.9, this command ")
    assert headway("ps").err == ""
    fake.version = "9.9.10"
    assert "9.9.10" in headway("ps").err
    fake.version = __version__
    assert headway("ps").err == ""
