"""Open and save models of other libraries.

Each family of models has a file that maps the fields of its config.json and its tensors to those of Saccade.
"""

from saccade.pretrained.folder import (
    FAMILIES,
    Pretrained,
    is_pretrained,
    pretrained_files,
    read_pretrained,
    weights_checksum,
)

__all__ = ["FAMILIES", "Pretrained", "is_pretrained", "pretrained_files", "read_pretrained", "weights_checksum"]
