"""The leader's term: who leads, the one writer thread, its cycle of commands, plan and commit, calls to engines."""
