"""The base pairs task: predict which bases of an RNA sequence pair with each other."""
