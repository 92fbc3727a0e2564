"""Models of other libraries: one family per file, its names of fields and tensors <-> ours, both ways."""

from saccade.pretrained.folder import (
    FAMILIES,
    Pretrained,
    is_pretrained,
    pretrained_files,
    read_pretrained,
    weights_checksum,
)

__all__ = ["FAMILIES", "Pretrained", "is_pretrained", "pretrained_files", "read_pretrained", "weights_checksum"]
