"""The user's code on its way to the server: which files, which packages, which commit, as a bundle."""
