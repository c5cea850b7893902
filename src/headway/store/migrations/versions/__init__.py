"""One file per revision. A revision that was released is never edited: the next one changes what it made."""
