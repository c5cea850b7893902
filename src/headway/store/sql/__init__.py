"""The store in a SQL database, SQLite or PostgreSQL: tables, rows, statements, and the group commit."""
