"""Models of other libraries, one family per file: how fields and tensors map to Saccade's, and back."""

from saccade.pretrained.folder import (
    FAMILIES,
    Pretrained,
    is_pretrained,
    pretrained_files,
    read_pretrained,
    weights_checksum,
)

__all__ = ["FAMILIES", "Pretrained", "is_pretrained", "pretrained_files", "read_pretrained", "weights_checksum"]
