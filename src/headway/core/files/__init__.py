"""The rules for what jobs keep: which checkpoint to resume from, seals, storage places, who saves, what was lost."""
