"""The attention of modules from other libraries, translated into Saccade's own calls."""
