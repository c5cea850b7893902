"""The words between a node and its server: what each message may say, how it is read and shown.

Both sides use these, and so does the simulator. Nothing here knows the agent or the server; it runs on Python 3.8 with
the standard library alone, and touches nothing: no clock, no file, no network.
"""
