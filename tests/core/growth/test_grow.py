"""Which nodes are ordered and given back, from what waits, what comes, what idles. Same question, same answer."""

from __future__ import annotations

from dataclasses import replace

from headway.core.growth.demand import Fleet, demand
from headway.core.growth.grow import Growth, Upkeep, grow_ordered
from headway.core.growth.node_orders import LEAVING, NodeOrder, index_of, order_of
from headway.core.model import Node, Pool, Resources
from headway.core.scheduling.scheduler import view_of
from headway.core.scheduling.view import View
from headway.store.conformance.specimens import a_job

POOL = Pool("lab", "slurm", 0, 4, idle_s=60.0, shape=Resources(4.0, 0, 0), options={"time": "1h"})
NOW = 1000.0


def waiting(*nodes: int, cpus: float = 4.0, wall_s: float | None = None) -> View:
    jobs = [
        replace(a_job(f"j{n}", nodes=count, resources=Resources(cpus), wall_s_max=wall_s), seq=n)
        for n, count in enumerate(nodes)
    ]
    return view_of(jobs, [])


def grown(view: View, *orders: NodeOrder, pool: Pool = POOL, upkeep: Upkeep | None = None, present: int = 0) -> Growth:
    nodes = [node for order in orders[:present] for node in order.node_ids]
    for node in nodes:
        view.saw_node(Node(node, pool.name, Resources(4.0, 1 << 30, 0)))
    idle = list(orders[:present])
    fleet = Fleet(pool, orders, frozenset(nodes), sum(order.nodes for order in idle))
    return grow_ordered(fleet, demand(view, [fleet], NOW), upkeep or Upkeep(), NOW)


def sizes(growth: Growth) -> list[int]:
    return [order.nodes for order in growth.new]


def test_small_jobs_share_a_node_and_a_gang_is_one_order() -> None:
    assert sizes(grown(waiting(1, 1, 1, cpus=2.0))) == [1, 1]
    assert sizes(grown(waiting(3))) == [3]
    assert sizes(grown(waiting(2, 1))) == [2, 1]


def test_never_more_than_the_most_and_nothing_for_who_fits_on_none() -> None:
    assert sizes(grown(waiting(1, 1, 1, 1, 1, 1))) == [1, 1, 1, 1]
    assert sizes(grown(waiting(5))) == []
    assert sizes(grown(waiting(1, cpus=5.0))) == []
    assert sizes(grown(waiting(1, wall_s=7200.0))) == [], "an allocation of an hour does not do for two"


def test_what_is_coming_is_not_ordered_again_and_the_same_question_has_the_same_answer() -> None:
    first = grown(waiting(1)).new[0]
    assert grown(waiting(1)).new == [first], "twice is once"
    again = grown(waiting(1), first)
    assert (again.new, again.leaving) == ([], [])


def test_an_order_that_nobody_needs_any_more_is_taken_back() -> None:
    order = NodeOrder("lab-1", "lab", 1, 900.0)
    assert grown(waiting(), order).leaving == [replace(order, state=LEAVING)]
    kept = replace(POOL, nodes_min=1)
    assert grown(waiting(), order, pool=kept).leaving == []
    assert sizes(grown(waiting(), pool=kept)) == [1]


def test_an_idle_node_stays_warm_for_a_while_and_busy_ones_stay_anyway() -> None:
    order = NodeOrder("lab-1", "lab", 1, 900.0, "ordered", 910.0)
    fresh = grown(waiting(), order, present=1)
    assert (fresh.leaving, fresh.idle_since) == ([], {"lab-1": NOW})
    cold = Upkeep(idle_since={"lab-1": NOW - 61.0})
    assert len(grown(waiting(), order, present=1, upkeep=cold).leaving) == 1
    busy = Upkeep(frozenset({"lab-1-0"}), {"lab-1": NOW - 61.0})
    assert grown(waiting(), order, present=1, upkeep=busy).leaving == []
    used = grown(waiting(1), order, present=1, upkeep=cold)
    assert (used.new, used.leaving) == ([], []), "nothing is ordered for a job that fits on what is there"


def test_idle_nodes_make_room_for_a_gang_that_the_most_would_keep_out() -> None:
    orders = [NodeOrder(f"lab-{n}", "lab", 2, 900.0, "ordered", 910.0) for n in (1, 2)]
    pool = replace(POOL, shape=Resources(8.0, 0, 0))
    growth = grown(waiting(3, cpus=8.0), *orders, pool=pool, present=2)
    assert len(growth.leaving) == 2
    assert growth.new == [], "not before they are gone"


def test_orders_of_which_nobody_calls_home_are_given_back_and_after_some_there_is_a_pause() -> None:
    order = NodeOrder("lab-1", "lab", 1, 100.0, "ordered", 110.0)
    growth = grown(waiting(1), order)
    assert (growth.late, len(growth.leaving)) == (["lab-1"], 1)
    assert grown(waiting(1), upkeep=Upkeep(hold_until=NOW + 1)).new == []


def test_the_id_of_a_node_names_its_order() -> None:
    assert (order_of("lab-2-ab12-3"), index_of("lab-2-ab12-3")) == ("lab-2-ab12", 3)
    assert (order_of("lab-ab12-3-r2"), index_of("lab-ab12-3-r2")) == ("lab-ab12", 3)
    assert order_of("lab") == ""
