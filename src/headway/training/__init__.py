"""What a training script needs of Headway: checkpoints, resuming, notices, metrics, parameters, and callbacks.

Standard library alone, Python 3.8 or newer: this package is carried to every node and put in the way of every job.
"""
