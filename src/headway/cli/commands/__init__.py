"""The commands, one file per noun or small group, loaded only when their command is typed."""
