"""Looking at attention; tokens are plain lists of words."""

from saccade.lens.walk.document import WalkDocument, read_document
from saccade.lens.walk.examples import EXAMPLES
from saccade.lens.walk.walkthrough import Step, Walkthrough, walkthrough

__all__ = ["EXAMPLES", "Step", "WalkDocument", "Walkthrough", "read_document", "walkthrough"]
