"""Looking at attention; tokens are plain lists of words."""

from saccade.lens.document import Document, read_document
from saccade.lens.examples import EXAMPLES
from saccade.lens.walkthrough import Step, Walkthrough, walkthrough

__all__ = ["EXAMPLES", "Document", "Step", "Walkthrough", "read_document", "walkthrough"]
