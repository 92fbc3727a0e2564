"""The tagging task: assign a label to each word (type 1 of lecture 004)."""
