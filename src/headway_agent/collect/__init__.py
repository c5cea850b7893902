"""The figures that a job prints and writes, read as they come: event files, output lines, tables, status calls."""
