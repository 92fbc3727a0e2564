"""Tools for looking at attention: views (weights with their tokens), figures, HTML pages and step-by-step walkthroughs.
They take tokens as plain lists of strings."""

from saccade.lens.walk.document import WalkDocument, read_document
from saccade.lens.walk.examples import EXAMPLES
from saccade.lens.walk.walkthrough import Step, Walkthrough, walkthrough

__all__ = ["EXAMPLES", "Step", "WalkDocument", "Walkthrough", "read_document", "walkthrough"]
