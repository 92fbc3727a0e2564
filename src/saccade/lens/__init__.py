"""Tools for looking at attention: views, figures, pages and walkthroughs. Tokens are plain lists of strings."""

from saccade.lens.walk.document import WalkDocument, read_document
from saccade.lens.walk.examples import EXAMPLES
from saccade.lens.walk.walkthrough import Step, Walkthrough, walkthrough

__all__ = ["EXAMPLES", "Step", "WalkDocument", "Walkthrough", "read_document", "walkthrough"]
