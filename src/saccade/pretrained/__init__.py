"""Open and save models of other libraries. Each file maps the fields and tensors of some models to Saccade's."""

from saccade.pretrained.folder import (
    FAMILIES,
    Pretrained,
    is_pretrained,
    pretrained_files,
    read_pretrained,
    weights_checksum,
)

__all__ = ["FAMILIES", "Pretrained", "is_pretrained", "pretrained_files", "read_pretrained", "weights_checksum"]
