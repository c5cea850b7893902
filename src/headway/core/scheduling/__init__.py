"""Who runs where and when: the view, the plan, order, room, shares, preemption, forecasts, and why a job waits."""
