"""The command line: one file per noun or small group, loaded only when its command is typed."""
