"""The paths of the API, one file per noun. Routes do not know each other."""
