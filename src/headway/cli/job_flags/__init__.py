"""Flags that describe a job, shared by all commands that take one."""
