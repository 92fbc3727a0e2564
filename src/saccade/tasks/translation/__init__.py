"""The translation task: turn one text into another, whose length the model decides (type 3 of lecture 004)."""
