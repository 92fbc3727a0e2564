"""The attention of modules that are not ours, translated into calls of ours."""
