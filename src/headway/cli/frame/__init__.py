"""What every command stands on: groups that load late, flags for all, three voices of output, exit codes, YAML."""
