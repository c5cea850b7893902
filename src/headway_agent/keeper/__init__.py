"""The keeper, parent of all ranks: its process, its table and journal, how a rank is started, the sweep after it."""
