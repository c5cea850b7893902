"""What goes in and out: bodies, their shapes, problems, transfers of files."""
