"""The scheduler's front door: everything that control, simulator and yardsticks use of it.

The picture is in view.py, the decisions in plan.py, the reasons in waiting.py, the outlook in forecast.py.
"""

from headway.core.scheduling.forecast import Forecast, Outlook, Start, expected_starts, first_in_order, outlook, what_if
from headway.core.scheduling.plan import Never, Placement, Plan, Preemption, plan
from headway.core.scheduling.view import View, view_of
from headway.core.scheduling.waiting import LOOK_AHEAD, SMALL, Changes, Waiting, why_all_waiting, why_waiting

__all__ = [
    "LOOK_AHEAD",
    "SMALL",
    "Changes",
    "Forecast",
    "Never",
    "Outlook",
    "Placement",
    "Plan",
    "Preemption",
    "Start",
    "View",
    "Waiting",
    "expected_starts",
    "first_in_order",
    "outlook",
    "plan",
    "view_of",
    "what_if",
    "why_all_waiting",
    "why_waiting",
]
