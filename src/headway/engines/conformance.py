"""The law of all engines, as tests: an engine is right when a subclass of EngineConformance passes with it.

    class TestMyEngine(EngineConformance):
        kind = KIND
        def open_engine(self, place): return MyEngine(place)

Needs pytest. Nothing in the server imports this file.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.core.growth.grow import Order
from headway.core.spec.engine import EngineRules
from headway.engines.protocol import Engine, Sight


class EngineConformance:
    """Subclass it, say how to make an engine and how to look behind it, and every test below must pass."""

    kind: EngineRules
    pool = "pool"
    settle_s_max = 60.0

    def open_engine(self, place: Path) -> Engine:
        """An engine; the same place gives the same nodes."""
        raise NotImplementedError

    def agent_of(self, place: Path, node: str) -> str:
        """Which agent process serves a node; another word for another process, empty for none."""
        raise NotImplementedError

    def end_agent(self, place: Path, node: str) -> None:
        """Take down a node's agent behind the engine's back."""
        raise NotImplementedError

    def left_over(self, place: Path) -> list[str]:
        """Everything of any node that is still there: processes, files, machines."""
        raise NotImplementedError

    @pytest.fixture
    def place(self, headway_home: Path) -> Path:
        return headway_home

    @pytest.fixture
    def engine(self, place: Path) -> Iterator[Engine]:
        engine = self.open_engine(place)
        yield engine
        engine.release(sorted(engine.sightings().nodes))

    def order_for(self, *nodes: str) -> Order:
        return Order("+".join(nodes), self.pool, nodes)

    def have(self, engine: Engine, *nodes: str) -> None:
        engine.order(engine.render(self.order_for(*nodes)))
        self.until(lambda: all(self.sight(engine, node) is Sight.UP for node in nodes), f"{nodes} to be up")

    def sight(self, engine: Engine, node: str) -> Sight | None:
        seen = engine.sightings().nodes.get(node)
        return seen.sight if seen else None

    def until(self, condition: Callable[[], bool], what: str) -> None:
        give_up_at = time.monotonic() + self.settle_s_max
        while not condition():
            assert time.monotonic() < give_up_at, f"waited {self.settle_s_max:g} s for {what}"
            time.sleep(0.02)

    def test_its_nodes_stand(self) -> None:
        assert not self.kind.ordered

    def test_before_any_order_nothing_is_seen(self, engine: Engine) -> None:
        seen = engine.sightings()
        assert seen.complete
        assert not seen.nodes

    def test_to_render_an_order_is_only_to_say_what_would_be_asked(self, engine: Engine, place: Path) -> None:
        order = self.order_for(f"{self.pool}-1")
        request = engine.render(order)
        assert request == engine.render(order) == self.open_engine(place).render(order)
        assert json.loads(json.dumps(request.text)) == request.text, "what would be asked is plain data"
        assert not engine.sightings().nodes
        assert not self.left_over(place)

    def test_an_ordered_node_comes_up_and_is_seen(self, engine: Engine, place: Path) -> None:
        self.have(engine, f"{self.pool}-1", f"{self.pool}-2")
        assert sorted(engine.sightings().nodes) == [f"{self.pool}-1", f"{self.pool}-2"]
        assert self.agent_of(place, f"{self.pool}-1") != self.agent_of(place, f"{self.pool}-2")

    def test_ordered_twice_is_ordered_once(self, engine: Engine, place: Path) -> None:
        node = f"{self.pool}-1"
        self.have(engine, node)
        agent = self.agent_of(place, node)
        self.have(engine, node)
        self.have(self.open_engine(place), node)
        assert agent
        assert self.agent_of(place, node) == agent

    def test_orders_at_the_same_moment_are_one(self, engine: Engine, place: Path) -> None:
        node = f"{self.pool}-1"
        failed: list[BaseException] = []

        def order_it() -> None:
            other = self.open_engine(place)
            try:
                other.order(other.render(self.order_for(node)))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=order_it) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        self.until(lambda: self.sight(engine, node) is Sight.UP, "the node to be up")
        agent = self.agent_of(place, node)
        self.have(engine, node)
        assert self.agent_of(place, node) == agent

    def test_an_engine_that_is_made_anew_finds_everything_again(self, engine: Engine, place: Path) -> None:
        self.have(engine, f"{self.pool}-1", f"{self.pool}-2")
        assert self.open_engine(place).sightings() == engine.sightings()

    def test_a_node_without_its_agent_is_seen_as_such_and_an_order_brings_it_back(
        self, engine: Engine, place: Path
    ) -> None:
        node, other = f"{self.pool}-1", f"{self.pool}-2"
        self.have(engine, node, other)
        before, untouched = self.agent_of(place, node), self.agent_of(place, other)
        self.end_agent(place, node)
        self.until(lambda: self.sight(engine, node) is Sight.AGENTLESS, "the agent to be missed")
        assert self.sight(engine, other) is Sight.UP
        self.have(engine, node)
        assert self.agent_of(place, node) not in ("", before)
        assert self.agent_of(place, other) == untouched

    def test_of_a_released_node_nothing_is_left(self, engine: Engine, place: Path) -> None:
        node, other = f"{self.pool}-1", f"{self.pool}-2"
        self.have(engine, node, other)
        engine.release([node])
        assert sorted(engine.sightings().nodes) == [other]
        engine.release([other])
        assert not engine.sightings().nodes
        assert not self.left_over(place)

    def test_a_node_without_its_agent_can_be_released_too(self, engine: Engine, place: Path) -> None:
        node = f"{self.pool}-1"
        self.have(engine, node)
        self.end_agent(place, node)
        engine.release([node])
        assert not engine.sightings().nodes
        assert not self.left_over(place)

    def test_what_is_not_there_is_released_already(self, engine: Engine, place: Path) -> None:
        node = f"{self.pool}-1"
        engine.release([node])
        engine.release([])
        self.have(engine, node)
        engine.release([node])
        engine.release([node])
        assert not self.left_over(place)

    def test_a_released_node_can_be_ordered_again(self, engine: Engine) -> None:
        node = f"{self.pool}-1"
        self.have(engine, node)
        engine.release([node])
        self.have(engine, node)


class OrderedEngineConformance:
    """The law of engines whose nodes are made on demand: orders are all or none, named for good, and given back whole.

    Nobody needs to call home for it: a node is up when the platform has it.
    """

    kind: EngineRules
    pool = "pool"
    settle_s_max = 60.0

    def open_engine(self, place: Path) -> Engine:
        """An engine whose orders are filled; the same place gives the same nodes. Its tokens contain "secret"."""
        raise NotImplementedError

    def open_waiting_engine(self, place: Path) -> Engine:
        """An engine of the same pool whose orders are taken, but not filled."""
        raise NotImplementedError

    def take_away(self, place: Path, order: Order) -> None:
        """Let the platform end an order by itself."""
        raise NotImplementedError

    def left_over(self, place: Path) -> list[str]:
        """Everything of any order that is still there: allocations, processes, files."""
        raise NotImplementedError

    @pytest.fixture
    def place(self, headway_home: Path) -> Path:
        return headway_home

    @pytest.fixture
    def engine(self, place: Path) -> Iterator[Engine]:
        engine = self.open_engine(place)
        yield engine
        engine.release(sorted(engine.sightings().nodes))

    def order_for(self, number: int, nodes: int = 1) -> Order:
        name = f"{self.pool}-{number:010x}"
        return Order(name, self.pool, tuple(f"{name}-{index}" for index in range(nodes)))

    def until(self, engine: Engine, order: Order, *sights: Sight | None) -> None:
        give_up_at = time.monotonic() + self.settle_s_max
        while True:
            seen = engine.sightings().nodes
            found = [seen[node].sight if node in seen else None for node in order.nodes]
            if all(each in sights for each in found):
                return
            assert time.monotonic() < give_up_at, f"waited {self.settle_s_max:g} s for {sights}, and found {found}"
            time.sleep(0.1)

    def until_nothing_is_left(self, place: Path) -> None:
        give_up_at = time.monotonic() + self.settle_s_max
        while left := self.left_over(place):
            assert time.monotonic() < give_up_at, f"left: {left}"
            time.sleep(0.1)

    def test_before_any_order_it_sees_nothing_and_unknown_nodes_are_released(self, engine: Engine) -> None:
        assert self.kind.ordered
        seen = engine.sightings()
        assert (seen.complete, dict(seen.nodes)) == (True, {})
        unknown = self.order_for(99, 2).nodes
        engine.release(unknown)
        engine.release([])

    def test_to_render_an_order_is_only_to_say_what_would_be_asked(self, engine: Engine, place: Path) -> None:
        order = self.order_for(1, 2)
        request = engine.render(order)
        assert request == engine.render(order) == self.open_engine(place).render(order)
        assert json.loads(json.dumps(request.text)) == request.text, "what would be asked is plain data"
        assert "secret" not in str(request.text)
        assert not self.left_over(place)

    def test_an_order_is_one_however_often_and_by_whom_it_is_made_until_it_is_given_back_whole(
        self, engine: Engine, place: Path
    ) -> None:
        order, other = self.order_for(1, 2), self.order_for(2)
        failed: list[BaseException] = []

        def order_it() -> None:
            mine = self.open_engine(place)
            try:
                mine.order(mine.render(order))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=order_it) for _ in range(3)]
        for thread in threads:
            thread.start()
        engine.order(engine.render(other))
        for thread in threads:
            thread.join()
        assert not failed
        engine.order(engine.render(order))
        for each in (order, other):
            self.until(engine, each, Sight.UP)
        anew = self.open_engine(place).sightings()
        assert sorted(anew.nodes) == sorted([*order.nodes, *other.nodes]), "found again by their ids, each once"
        assert {each.sight for each in anew.nodes.values()} == {Sight.UP}
        self.open_engine(place).release(order.nodes)
        assert sorted(engine.sightings().nodes) == list(other.nodes)
        engine.release([*order.nodes, *other.nodes])
        assert not engine.sightings().nodes
        self.until_nothing_is_left(place)

    def test_an_order_that_waits_says_why_and_can_be_given_back(self, place: Path) -> None:
        engine, order = self.open_waiting_engine(place), self.order_for(3)
        engine.order(engine.render(order))
        self.until(engine, order, Sight.WAITING)
        assert engine.sightings().nodes[order.nodes[0]].why
        engine.order(engine.render(order))
        engine.release(order.nodes)
        assert not engine.sightings().nodes
        self.until_nothing_is_left(place)

    def test_what_the_platform_takes_away_is_not_seen_as_there(self, engine: Engine, place: Path) -> None:
        order = self.order_for(4)
        engine.order(engine.render(order))
        self.until(engine, order, Sight.UP)
        self.take_away(place, order)
        gone = (Sight.GONE,) if self.kind.proves_death else ()
        self.until(engine, order, None, Sight.GONE_CLAIMED, *gone)
        engine.release(order.nodes)
        self.until_nothing_is_left(place)
