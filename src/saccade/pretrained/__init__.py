"""Models of other libraries, one family per file: how its fields and tensors map to ours, and back."""

from saccade.pretrained.folder import (
    FAMILIES,
    Pretrained,
    is_pretrained,
    pretrained_files,
    read_pretrained,
    weights_checksum,
)

__all__ = ["FAMILIES", "Pretrained", "is_pretrained", "pretrained_files", "read_pretrained", "weights_checksum"]
