"""The law of all stores, as tests, in parts by what is stored."""
