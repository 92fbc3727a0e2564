"""The classification task: assign one label to a text (type 2 of lecture 004)."""
