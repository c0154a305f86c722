"""One file per question the lab can measure; found by this folder."""
