"""Models of other libraries: one family per file, its names of fields and tensors <-> ours, both ways."""

from saccade.pretrained.folder import (
    FAMILIES,
    Pretrained,
    is_pretrained,
    read_pretrained,
    weights_checksum,
    write_pretrained,
)

__all__ = ["FAMILIES", "Pretrained", "is_pretrained", "read_pretrained", "weights_checksum", "write_pretrained"]
