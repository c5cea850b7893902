from __future__ import annotations

from typing import Any

import pytest

from headway.core.errors import BadInput
from headway.core.growth.grow import standing_nodes
from headway.core.model import Pool
from headway.core.spec.engine import EngineRules
from headway.core.spec.hosts import Host, read_host
from headway.core.spec.pool import read_pool, show_pool
from headway.engines.options import check_options

ENGINES = {"local": EngineRules(name="local"), "ssh": EngineRules(name="ssh")}


def test_a_host_is_written_as_for_ssh() -> None:
    assert read_host("h1") == Host("h1")
    assert read_host("ada@gpu-2.lab:2222") == Host("gpu-2.lab", "ada", 2222)
    assert read_host("[fe80::1]:22") == Host("fe80::1", "", 22)
    assert read_host("ada@gpu-2.lab").called == "gpu-2-lab"


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "a b", "h:99999", "@h", "u@-x", 7, "h;x"])
def test_what_is_no_host_is_refused(text: Any) -> None:
    with pytest.raises(BadInput, match="is not a host"):
        read_host(text)


def test_a_pool_of_hosts_has_a_node_for_each_and_its_words_come_back() -> None:
    words = {"engine": "ssh", "hosts": ["h1", "ada@h2:2222"], "options": {"call_home": "tunnel"}}
    pool = read_pool("lab", words, ENGINES)
    assert standing_nodes(pool) == ("lab-h1", "lab-h2")
    assert (pool.nodes_min, pool.nodes_max, pool.lease_s) == (2, 2, 1800.0)
    shown = show_pool(pool)
    assert {key: shown[key] for key in words} == words
    assert read_pool("lab", shown, ENGINES) == pool


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"hosts": ["h1", "ada@h1"]}, "are one host"),
        ({"hosts": "h1"}, "expected a list"),
        ({"hosts": ["h1"], "min": 2}, "hosts excludes min"),
        ({"options": {"hosts": ["h1"]}}, "is not an option"),
        ({"options": {"x": float("nan")}}, "not plain data"),
        ({"options": {"x": "y" * 70_000}}, "more than 65,536"),
    ],
)
def test_nonsense_about_hosts_and_options_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_pool("lab", {"engine": "ssh", **words}, ENGINES)


def test_an_option_that_the_engine_does_not_read_is_refused_with_the_nearest_one() -> None:
    pool = Pool("lab", "ssh", options={"call_hoem": "tunnel"})
    with pytest.raises(BadInput, match='unknown key "call_hoem"') as refused:
        check_options(pool, {"call_home": "", "python": ""}, hosts=True)
    assert refused.value.hint == 'did you mean "call_home"?'
