"""The numbers behind every view, against a softmax written out here in float64."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import saccade
from saccade.attention import Trace
from saccade.attention.watching.trace import WEIGHTS_LIMIT
from saccade.errors import FileError, OptionError, ShapeError, TooLargeError, UnknownNameError
from saccade.lens.view import Axis, Head, View, view

BATCH, HEADS, SOURCE, TARGET, WIDTH = 2, 3, 7, 5, 4
SOURCE_TOKENS = ["the", "int", "##er", "cat", "ate", "mouse", "</s>"]
SOURCE_WORDS = [0, 1, 1, 2, 3, 4, None]
TOKENS = ["<s>", "▁le", "▁ch", "at", "."]
WORDS = [0, 1, 2, 2, 3]


def watched(num_queries: int, num_keys: int, seed: int, *, causal: bool = False) -> tuple[Trace, Tensor]:
    """A trace, and its weights as the equation has them."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(BATCH, HEADS, num_queries, WIDTH, generator=generator)
    key = torch.randn(BATCH, HEADS, num_keys, WIDTH, generator=generator)
    with saccade.watch() as seen:
        saccade.attend(query, key, key, mask=saccade.causal if causal else None)
    scores = query.double() @ key.double().transpose(-1, -2) / math.sqrt(WIDTH)
    if causal:
        scores = scores.masked_fill(torch.ones(num_queries, num_keys).triu(1).bool(), -math.inf)
    return seen["attention"], scores.softmax(-1)


PARTS = {
    "encoder.0.self": watched(SOURCE, SOURCE, 0),
    "encoder.1.self": watched(SOURCE, SOURCE, 1),
    "decoder.0.self": watched(TARGET, TARGET, 2, causal=True),
    "decoder.0.cross": watched(TARGET, SOURCE, 3),
}
SEEN = {name: trace for name, (trace, _) in PARTS.items()}
TRUE = {name: weights[1] for name, (_, weights) in PARTS.items()}  # of sequence 1


@pytest.fixture
def seen_view() -> View:
    return view(SEEN, TOKENS, source_tokens=SOURCE_TOKENS, words=WORDS, source_words=SOURCE_WORDS, batch=1)


def assert_close(found: Tensor, true: Tensor) -> None:
    torch.testing.assert_close(found.double(), true.double(), rtol=0, atol=1e-6)


def merged(weights: Tensor, rows: list[int], columns: list[int]) -> Tensor:
    """Word by word: the mean over the pieces of the row's, of the sum over those of the column's."""
    result = torch.zeros(max(rows) + 1, max(columns) + 1, dtype=torch.float64)
    for row in range(len(result)):
        for column in range(result.shape[1]):
            pieces = [r for r, word in enumerate(rows) if word == row]
            keys = [c for c, word in enumerate(columns) if word == column]
            result[row, column] = weights[pieces][:, keys].sum() / len(pieces)
    return result


# --- axes --------------------------------------------------------------------------------------------------


def test_words_are_counted_from_zero_as_runs_of_one_number() -> None:
    axis = Axis.of(["[CLS]", "play", "##ing", "[SEP]", "it", "[SEP]"], [None, 0, 0, None, 0, None])
    assert axis.words == [0, 1, 1, 2, 3, 4]
    assert axis.joined == ["[CLS]", "playing", "[SEP]", "it", "[SEP]"]
    assert Axis.of(["a", "b"]).words == [0, 1]
    assert Axis.of([], []).joined == []
    with pytest.raises(ShapeError, match="tokens has 2 entries but words has 1"):
        Axis.of(["a", "b"], [0])


@pytest.mark.parametrize(
    ("pieces", "word"),
    [
        (["▁inter", "nal"], "internal"),
        (["Ġin", "ner"], "inner"),
        (["in@@", "ner"], "inner"),
        (["▁"], "▁"),
        (["##"], "##"),
    ],
)
def test_marks_of_pieces_are_not_part_of_a_word(pieces: list[str], word: str) -> None:
    assert Axis.of(pieces, [0] * len(pieces)).joined == [word]


def test_tokens_find_their_axes_by_name_and_length(seen_view: View) -> None:
    rows = {name: axis.tokens for name, axis in seen_view.rows.items()}
    columns = {name: axis.tokens for name, axis in seen_view.columns.items()}
    assert rows["encoder.1.self"] == columns["encoder.1.self"] == SOURCE_TOKENS
    assert rows["decoder.0.self"] == columns["decoder.0.self"] == TOKENS
    assert (rows["decoder.0.cross"], columns["decoder.0.cross"]) == (TOKENS, SOURCE_TOKENS)


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("model.decoder.layers.0.encoder_attn", "ts"),
        ("decoder.block.0.layer.1.EncDecAttention", "ts"),
        ("decoder.bert.encoder.layer.0.attention.self", "tt"),
        ("model.encoder.layers.3.self_attn", "ss"),
        ("h.0.attn", "tt"),
    ],
)
def test_where_both_sequences_are_as_long_the_name_decides(name: str, sides: str) -> None:
    tokens = {"t": list("abcde"), "s": list("vwxyz")}
    found = view({name: SEEN["decoder.0.self"]}, tokens["t"], source_tokens=tokens["s"])
    assert [found.rows[name].tokens, found.columns[name].tokens] == [tokens[side] for side in sides]


def test_without_tokens_positions_are_numbered() -> None:
    found = view({"decoder.0.cross": SEEN["decoder.0.cross"]})
    assert found.rows["decoder.0.cross"].tokens == ["0", "1", "2", "3", "4"]
    assert len(found.columns["decoder.0.cross"]) == SOURCE


def test_without_source_tokens_the_source_is_numbered() -> None:
    found = view(SEEN, TOKENS)
    assert found.rows["decoder.0.cross"].tokens == found.rows["decoder.0.self"].tokens == TOKENS
    assert found.columns["decoder.0.cross"].tokens == found.rows["encoder.0.self"].tokens == list("0123456")
    assert found.notes["decoder.0.cross"] == "columns are numbered, because source_tokens were not given"


def test_tokens_that_do_not_fit_are_refused() -> None:
    cross = {"decoder.0.cross": SEEN["decoder.0.cross"]}
    with pytest.raises(ShapeError, match="has 5 rows and 7 columns, but 4 tokens were given; every position needs"):
        view(cross, TOKENS[1:])
    with pytest.raises(ShapeError, match="but 4 tokens and 7 source tokens were given"):
        view(cross, TOKENS[1:], source_tokens=SOURCE_TOKENS)
    with pytest.raises(OptionError, match="No attention was seen"):
        view({})
    with pytest.raises(OptionError, match="together with tokens"):
        view(cross, source_tokens=SOURCE_TOKENS)
    with pytest.raises(OptionError, match="source_words can only be given together with source_tokens"):
        view(cross, TOKENS, source_words=SOURCE_WORDS)
    with pytest.raises(ShapeError, match=r"no sequence 2 in decoder.0.cross; there are 2"):
        view(cross, batch=2)


def test_kinds_and_stacks(seen_view: View) -> None:
    kinds = {name: seen_view.kind(name) for name in seen_view.names}
    assert kinds == {
        "encoder.0.self": "self",
        "encoder.1.self": "self",
        "decoder.0.self": "causal",
        "decoder.0.cross": "cross",
    }
    assert seen_view.heads("decoder.0.cross") == HEADS
    assert seen_view.stacks == {
        "encoder.*.self": ["encoder.0.self", "encoder.1.self"],
        "decoder.*.self": ["decoder.0.self"],
    }


@pytest.mark.parametrize("row", [0, 1, 45, 97])
@pytest.mark.parametrize("is_given", [True, False])
def test_a_single_link_ahead_is_not_causal(row: int, is_given: bool) -> None:
    allowed = torch.ones(99, 99).tril().bool()
    vectors = torch.randn(1, 2, 99, 4)

    def kind() -> str:
        if is_given:
            scores = (vectors @ vectors.mT).masked_fill(~allowed, -math.inf)
            return view([scores.softmax(-1)]).kind("layer.0")
        with saccade.watch() as seen:
            saccade.attend(vectors, vectors, vectors, mask=saccade.dense(allowed))
        return view(seen).kind("attention")

    assert kind() == "causal"
    allowed[row, row + 1] = True
    assert kind() == "self"


def test_layers_of_another_length_are_another_stack(seen_view: View) -> None:
    traces = {
        "layers.0": SEEN["encoder.0.self"],
        "layers.1": SEEN["encoder.1.self"],
        "layers.2": SEEN["decoder.0.self"],
    }
    shown = view(traces, batch=1)
    assert shown.stacks == {"layers.* of 7 tokens": ["layers.0", "layers.1"], "layers.* of 5 tokens": ["layers.2"]}
    assert_close(shown.rollout("layers.* of 7 tokens"), seen_view.rollout("encoder.*.self"))


class Mixing(nn.Module):
    """Someone's model of our layers, with a convolution between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = saccade.MultiHead(8, 2), saccade.MultiHead(8, 2)
        self.between = nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.first(x)
        return x + self.second(self.between(x.mT).mT)


def test_our_layers_in_someones_model_have_no_rollout_without_proof() -> None:
    model = Mixing().eval()
    with saccade.watch(model) as seen, torch.no_grad():
        model(torch.randn(1, 5, 8))
    found = view(seen, TOKENS)
    assert found.names == ["first", "second"]
    with pytest.raises(OptionError, match="other parts of the model mix tokens too"):
        found.rollout()


# --- weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEEN)
def test_a_matrix_has_the_exact_weights(seen_view: View, name: str) -> None:
    assert_close(seen_view.matrix(name, 2), TRUE[name][2])
    assert_close(seen_view.matrix(name), TRUE[name].mean(0))
    assert_close(seen_view.matrix(name, "max"), TRUE[name].amax(0))
    assert_close(seen_view.tile(name, "mean", slice(1, 4), range(2, 5)), TRUE[name].mean(0)[1:4, 2:5])


def test_words_sum_over_keys_and_average_over_queries(seen_view: View) -> None:
    rows, columns = seen_view.rows["decoder.0.cross"].words, seen_view.columns["decoder.0.cross"].words
    true = torch.stack([merged(head, rows, columns) for head in TRUE["decoder.0.cross"]])
    assert true.shape == (HEADS, 4, 6)
    assert_close(seen_view.matrix("decoder.0.cross", 1, words=True), true[1])
    assert_close(seen_view.matrix("decoder.0.cross", words=True), true.mean(0))
    assert_close(seen_view.matrix("decoder.0.cross", "max", words=True), true.amax(0))
    assert_close(seen_view.matrix("decoder.0.cross", words=True).sum(-1), torch.ones(4))
    assert_close(seen_view.row("decoder.0.cross", 2, words=True), true[:, 2])


def test_a_row_and_its_strongest_keys(seen_view: View) -> None:
    true = TRUE["decoder.0.cross"][:, 3]
    assert_close(seen_view.row("decoder.0.cross", 3), true)
    assert_close(seen_view.row("decoder.0.cross", -2), true)
    best = seen_view.top("decoder.0.cross", 3, 2, head=1)
    assert [link.column for link in best] == true[1].argsort(descending=True)[:2].tolist()
    assert best[0].weight == pytest.approx(float(true[1].max()), abs=1e-6)
    assert seen_view.top("decoder.0.cross", 3, 1)[0].weight == pytest.approx(float(true.mean(0).max()), abs=1e-6)
    assert len(seen_view.top("decoder.0.cross", 3, 99)) == SOURCE


def test_an_overview_pools_the_weights(seen_view: View) -> None:
    cells = TRUE["encoder.0.self"].new_zeros(2, HEADS, 2, 2)
    for row, rows in enumerate((slice(0, 4), slice(4, 7))):
        for column, columns in enumerate((slice(0, 4), slice(4, 7))):
            part = TRUE["encoder.0.self"][:, rows, columns]
            cells[0, :, row, column], cells[1, :, row, column] = part.mean((1, 2)), part.amax((1, 2))
    assert_close(seen_view.overview("encoder.0.self", 2, size=2).values, cells[1, 2])
    assert_close(seen_view.overview("encoder.0.self", 2, size=2, reduce="mean").values, cells[0, 2])
    done: list[float] = []
    found = seen_view.overview("encoder.0.self", size=2, progress=done.append)
    assert_close(found.values, cells[0].mean(0))
    assert found.label == "mean of 4×4 weights"
    assert done == sorted(done)
    assert done[-1] == 1.0
    assert_close(seen_view.overview("encoder.0.self", "max", size=2).values, cells[1].amax(0))
    with pytest.raises(OptionError, match="reduce must be 'mean' for the mean of all heads, not 'max'"):
        seen_view.overview("encoder.0.self", reduce="max")


def test_what_is_not_there_is_refused(seen_view: View) -> None:
    with pytest.raises(UnknownNameError, match=r"no attention 'encoder.0.sef'.*Did you mean 'encoder.0.self'"):
        seen_view.matrix("encoder.0.sef")
    with pytest.raises(ShapeError, match="no head 3"):
        seen_view.matrix("encoder.0.self", 3)
    with pytest.raises(ShapeError, match="no head -4"):
        seen_view.top("encoder.0.self", 0, head=-4)
    with pytest.raises(OptionError, match="mean or max over all heads, not 'sum'"):
        seen_view.matrix("encoder.0.self", "sum")
    with pytest.raises(ShapeError, match=r"no row 4 in decoder.0.cross; there are 4"):
        seen_view.row("decoder.0.cross", 4, words=True)
    with pytest.raises(OptionError, match="k to be at least 1, not 0"):
        seen_view.top("encoder.0.self", 0, 0)
    with pytest.raises(UnknownNameError, match="no kind of figure 'pie'"):
        seen_view.figure("pie")
    with pytest.raises(UnknownNameError, match="no terminal view 'pie'"):
        seen_view.terminal("pie")


def test_what_does_not_fit_into_memory_names_the_overview() -> None:
    size = math.isqrt(WEIGHTS_LIMIT) + 1
    vectors = torch.zeros(1, 1, size, 1)
    with saccade.watch() as seen:
        saccade.attend(vectors[:, :, :1], vectors, vectors)
    assert view(seen).matrix("attention").shape == (1, size)
    long = view({"long": Trace("long", replace(seen["attention"]._segments[0].call, query=vectors))})
    with pytest.raises(TooLargeError, match=r"long are 8,193 by 8,193 numbers; .* Ask for an overview"):
        long.matrix("long")
    assert long.tile("long", "mean", slice(8190, None), slice(0, 2)).tolist() == [[pytest.approx(1 / size)] * 2] * 3


# --- measures ----------------------------------------------------------------------------------------------


def test_rollout_multiplies_the_layers(seen_view: View) -> None:
    layers = [0.5 * TRUE[name].mean(0) + 0.5 * torch.eye(SOURCE) for name in ("encoder.0.self", "encoder.1.self")]
    true = layers[1] @ layers[0]
    assert_close(seen_view.rollout(), true)
    assert_close(seen_view.rollout().sum(-1), torch.ones(SOURCE))
    words = seen_view.rows["encoder.0.self"].words
    assert_close(seen_view.rollout(words=True), merged(true, words, words))
    assert_close(seen_view.rollout("decoder.*.self"), 0.5 * TRUE["decoder.0.self"].mean(0) + 0.5 * torch.eye(TARGET))
    with pytest.raises(UnknownNameError, match="no stack of self-attentions 'x'"):
        seen_view.rollout("x")
    with pytest.raises(OptionError, match=r"are the same tokens; there is none among decoder.0.cross"):
        view({"decoder.0.cross": SEEN["decoder.0.cross"]}).rollout()


def test_entropy_and_distance_of_each_head(seen_view: View) -> None:
    weights = TRUE["encoder.0.self"]
    assert_close(seen_view.entropy("encoder.0.self"), -(weights * weights.log2()).sum(-1).mean(-1))
    away = (torch.arange(SOURCE)[:, None] - torch.arange(SOURCE)).abs()
    assert_close(seen_view.distance("encoder.0.self"), (weights * away).sum(-1).mean(-1))
    with pytest.raises(OptionError, match=r"decoder.0.cross attends to another sequence"):
        seen_view.distance("decoder.0.cross")


def test_a_difference_is_between_the_tokens_that_both_have(seen_view: View) -> None:
    trace, weights = watched(SOURCE, SOURCE, 9)
    tokens = ["a", "the", "cat", "ate", "the", "big", "mouse"]
    other = view({"encoder.0.self": trace}, tokens, batch=1)
    here, there = [0, 3, 4, 5], [1, 2, 3, 6]  # the cat ate mouse
    found = seen_view.difference(other, "encoder.0.self", 1)
    assert found.rows == found.columns == ["the", "cat", "ate", "mouse"]
    assert found.row_pairs == found.column_pairs == list(zip(here, there, strict=True))
    assert_close(found.values, TRUE["encoder.0.self"][1][here][:, here] - weights[1, 1][there][:, there])
    by_words = seen_view.difference(other, "encoder.0.self", words=True)
    assert [row for row, _ in by_words.row_pairs] == [0, 2, 3, 4]
    with pytest.raises(UnknownNameError):
        seen_view.difference(other, "encoder.1.self")


# --- numbers in files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", [0, "mean"])
def test_saved_numbers_are_the_weights(seen_view: View, tmp_path: Path, head: Head) -> None:
    name = "decoder.0.cross"
    true = seen_view.matrix(name, head)[1:3, 2:].numpy()
    numpy_file = seen_view.save_numbers(tmp_path / "a.npy", name, head, slice(1, 3), slice(2, None))
    found = np.load(numpy_file, allow_pickle=False)
    assert found.dtype == np.float32
    assert np.array_equal(found, true)
    tensors = seen_view.save_numbers(tmp_path / "a.safetensors", name, head, slice(1, 3), slice(2, None))
    assert np.array_equal(safetensors.torch.load_file(tensors)["weights"].numpy(), true)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "a.safetensors"]


def test_where_numbers_cannot_be_saved(seen_view: View, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"saved as .npy or .safetensors, not as '.csv'"):
        seen_view.save_numbers(tmp_path / "a.csv", "decoder.0.cross")
    with pytest.raises(FileError, match=r"a.npy: the numbers cannot be written: No such file"):
        seen_view.save_numbers(tmp_path / "no" / "a.npy", "decoder.0.cross")
    (tmp_path / "b.npy").mkdir()
    with pytest.raises(FileError, match="Is a directory"):
        seen_view.save_numbers(tmp_path / "b.npy", "decoder.0.cross")
    assert [path.name for path in tmp_path.iterdir()] == ["b.npy"]  # nothing half-written is left


def test_nothing_seen_says_why() -> None:
    with saccade.watch(torch.nn.Linear(3, 3)) as seen:
        pass
    with pytest.raises(OptionError, match=r"No attention was seen.*inside watch\(\)\.$"):
        view(seen)


class Written(torch.nn.Module):
    """Attention without torch's functions for it."""

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.transpose(-1, -2)).softmax(-1) @ x


def test_what_is_written_out_says_what_to_do() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), Written())
    with torch.no_grad(), saccade.watch(model) as seen:
        model(torch.randn(1, 5, 3))
    with pytest.raises(
        OptionError, match=r"nothing to view: 0 attentions seen; 1 not seen \(1\).*saccade\.view\(outputs"
    ):
        view(seen)


def test_what_was_refused_says_why() -> None:
    layer = saccade.MultiHead(8, 2)
    kept = layer.project(torch.randn(1, 5, 8))
    with torch.no_grad(), saccade.watch(layer) as seen:
        layer(torch.randn(3, 1, 8), kept)  # three hypotheses share one source
    with pytest.raises(OptionError, match=r"'attention' cannot be shown: .*hypotheses of a beam search"):
        view(seen)


@pytest.mark.parametrize(("kind", "options"), [("patches", {}), ("difference", {}), ("grid", {"nonsense": 1})])
def test_options_of_a_figure_that_do_not_fit_are_one_sentence(kind: str, options: dict[str, int]) -> None:
    layer = saccade.MultiHead(8, 2)
    with torch.no_grad(), saccade.watch(layer) as seen:
        layer(torch.randn(1, 3, 8))
    with pytest.raises(OptionError, match=rf"A {kind} figure: .*argument"):
        view(seen).figure(kind, **options)
