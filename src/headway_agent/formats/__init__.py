"""What a file's or a directory's own structure says: whether it is whole, and which plain data is in it."""
