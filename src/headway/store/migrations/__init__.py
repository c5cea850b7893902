"""How a database of an older Headway becomes one of this: one file per revision in versions/, run by migrate.py."""
