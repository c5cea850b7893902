"""The simulator: the real commands, cycle, core and agent decisions under simulated nodes, users, engines and weather.

world.py holds the clock; run.py makes and judges one seed; `python -m headway.sim` runs many.
"""
