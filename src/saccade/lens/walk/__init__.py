"""A walkthrough of attention, number by number: its input file, its steps, and worked examples."""
