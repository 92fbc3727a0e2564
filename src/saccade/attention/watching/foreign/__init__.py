"""Watches and edits attention in modules from other libraries, whose calls it translates into Saccade's ``Call``."""
