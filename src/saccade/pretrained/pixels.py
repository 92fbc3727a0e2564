"""Read ``preprocessor_config.json``, which says how a model of another library turns pictures into numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import FileError
from saccade.pretrained.fields import Fields, read_fields

__all__ = ["FILTERS", "Preparation", "preparation_fields", "read_preparation"]

NAME = "preprocessor_config.json"
#: The filters for resizing, by their Pillow numbers.
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
#: The fields that Saccade reads or that do not change any pixel, such as how the file was made.
_KNOWN = frozenset(
    """
    crop_size data_format device disable_grouping do_center_crop do_convert_rgb do_normalize do_rescale do_resize
    feature_extractor_type image_mean image_processor_type image_std input_data_format processor_class resample
    rescale_factor return_tensors size
    """.split()  # noqa: SIM905 - a list of 20 lines says no more
)
#: The classes that prepare pictures as Saccade does, with the filter and the cut that each uses unless its file says
#: otherwise.
_CLASSES = {"ViT": (2, False), "DeiT": (3, True)}
_ENDS = ("Fast", "Pil", "FeatureExtractor", "ImageProcessor")


@dataclass(frozen=True)
class Preparation:
    """How a picture is turned into the numbers that a network takes: resized, and normalised in each channel."""

    mean: tuple[float, ...]  # subtracted from the values of each channel, which are between 0 and 1
    deviation: tuple[float, ...]  # the results are divided by this
    filter: str  # the filter for resizing pictures of another size
    resized: tuple[int, int] | int | None  # the size, or the shorter side, before the middle is cut out; None: no cut


def read_preparation(folder: Path, size: tuple[int, int], channels: int, family: str) -> Preparation:
    """Read from a model folder how to prepare pictures for its network, which takes images of this size. The class that
    does this in ``transformers`` is that of the ``family``, ViT or DeiT, unless the file names the other one."""
    path = folder / NAME
    if not path.exists():
        raise FileError(
            f"{folder} has no {NAME}, which says how to turn pictures into numbers; save it with transformers: "
            "AutoImageProcessor.from_pretrained(name).save_pretrained(folder)."
        )
    fields = read_fields(path)
    for name in ("do_resize", "do_rescale", "do_normalize"):
        fields.expect(name, True)
    for name, value in fields.values.items():
        if name not in _KNOWN and value not in (None, False):
            raise FileError(
                f"{path} has the field {name[:60]!r}, which Saccade does not know and which could change the pixels."
            )
    scale = fields.number("rescale_factor", 1 / 255)
    if abs(scale * 255 - 1) > 1e-6:
        raise FileError(f"{path}: rescale_factor is {scale}; Saccade supports only 1/255.")
    mean, deviation = (_each(fields, name, channels) for name in ("image_mean", "image_std"))
    usual_filter, is_cut = _CLASSES[_class(fields, family)]
    number = fields.whole("resample", usual_filter)
    if number not in FILTERS:
        raise FileError(f"{path}: resample is {str(number)[:60]}; Saccade supports {', '.join(map(str, FILTERS))}.")
    stated = _size(fields, "size")
    cut = _size(fields, "crop_size", 224) if fields.flag("do_center_crop", is_cut) else None
    cut = (cut, cut) if isinstance(cut, int) else cut
    if (cut or stated) != size:
        raise FileError(f"{path}: the images have size {cut or stated}, but in config.json they have {size}.")
    return Preparation(mean, deviation, FILTERS[number], None if cut is None else stated)


def _class(fields: Fields, family: str) -> str:
    """Return the family whose class in ``transformers`` prepares the pictures: ViT or DeiT."""
    stated = fields.values.get("image_processor_type") or fields.values.get("feature_extractor_type") or family
    name = str(stated)
    for end in _ENDS:
        name = name.removesuffix(end)
    if name not in _CLASSES:
        raise FileError(
            f"{fields.where} is for the class {str(stated)[:60]!r}, which may prepare pictures in other ways; Saccade "
            "supports only ViTImageProcessor and DeiTImageProcessor."
        )
    return name


def preparation_fields(found: Preparation, size: tuple[int, int]) -> dict[str, Any]:
    """Return the fields of the ``preprocessor_config.json`` that describes this preparation."""
    sides = ("height", "width")
    edge = {"shortest_edge": found.resized} if isinstance(found.resized, int) else None
    cut = {"do_center_crop": True, "crop_size": dict(zip(sides, size, strict=True))} if found.resized else {}
    return {
        "do_resize": True,
        "size": edge or dict(zip(sides, found.resized or size, strict=True)),  # type: ignore[arg-type]
        "resample": next(number for number, name in FILTERS.items() if name == found.filter),
        **cut,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(found.mean),
        "image_std": list(found.deviation),
    }


def _each(fields: Fields, name: str, channels: int) -> tuple[float, ...]:
    """Return the numbers in a field: one for each channel, between 0 and 1."""
    given = fields.take(name, list, [0.5] * channels)
    if len(given) != channels or not all(isinstance(one, int | float) and 0 <= one <= 1 for one in given):
        raise FileError(f"{fields.where}: {name} must be {channels} numbers between 0 and 1, not {str(given)[:60]}.")
    if name == "image_std" and not all(given):
        raise FileError(f"{fields.where}: image_std must not be 0.")
    return tuple(float(one) for one in given)


def _size(fields: Fields, name: str, default: int | None = None) -> tuple[int, int] | int:
    """Return the size in a field: a height and a width, or the length of the shorter side."""
    given = fields.take(name, (dict, int), default)
    found = (given, given) if isinstance(given, int) else given.get("shortest_edge")
    if isinstance(given, dict) and found is None:
        found = (given.get("height"), given.get("width"))
    sides = found if isinstance(found, tuple) else (found,)
    if not all(type(side) is int and 0 < side <= 1 << 14 for side in sides):
        raise FileError(f"{fields.where}: {name} is {str(given)[:60]}, which is not the size of an image.")
    return found
