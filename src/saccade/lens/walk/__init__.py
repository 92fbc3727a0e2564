"""The walk through attention, number by number: what is given, its steps, and worked examples."""
