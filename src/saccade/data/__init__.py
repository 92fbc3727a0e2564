"""Read training examples from files (parallel text, tables, labelled words and texts, NETtalk), report on them and
split them; generate examples from the built-in corpus; and download public data sets."""

from saccade.data.catalogue import CATALOGUE, DataFile, DataSet, take
from saccade.data.fetch import fetch
from saccade.data.grammar import Example, generate
from saccade.data.labelled import LabelledText, read_labelled
from saccade.data.nettalk import nettalk_splits, read_nettalk
from saccade.data.pairs import Cleaning, Pair, read_parallel, read_table
from saccade.data.report import Finding, Lengths, Report
from saccade.data.split import Overlap, Parts, overlap, split, split_by_line, without_sources
from saccade.data.tagged import TaggedSentence, read_tagged

__all__ = [
    "CATALOGUE",
    "Cleaning",
    "DataFile",
    "DataSet",
    "Example",
    "Finding",
    "LabelledText",
    "Lengths",
    "Overlap",
    "Pair",
    "Parts",
    "Report",
    "TaggedSentence",
    "fetch",
    "generate",
    "nettalk_splits",
    "overlap",
    "read_labelled",
    "read_nettalk",
    "read_parallel",
    "read_table",
    "read_tagged",
    "split",
    "split_by_line",
    "take",
    "without_sources",
]
