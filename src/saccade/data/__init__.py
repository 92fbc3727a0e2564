"""Files -> examples: parallel text, tables, NETtalk; their report and splits; the built-in corpus; public sets."""

from saccade.data.catalogue import CATALOGUE, DataFile, DataSet, locate, take
from saccade.data.fetch import fetch
from saccade.data.grammar import Example, generate
from saccade.data.nettalk import nettalk_splits, read_nettalk
from saccade.data.pairs import Cleaning, Pair, read_parallel, read_table
from saccade.data.report import Finding, Lengths, Report
from saccade.data.split import Overlap, Splits, overlap, split, split_by_line, without_sources

__all__ = [
    "CATALOGUE",
    "Cleaning",
    "DataFile",
    "DataSet",
    "Example",
    "Finding",
    "Lengths",
    "Overlap",
    "Pair",
    "Report",
    "Splits",
    "fetch",
    "generate",
    "locate",
    "nettalk_splits",
    "overlap",
    "read_nettalk",
    "read_parallel",
    "read_table",
    "split",
    "split_by_line",
    "take",
    "without_sources",
]
