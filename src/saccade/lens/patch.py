"""Activation patching: finding the heads and positions that make the outputs for two inputs differ.

    found = saccade.patch(model, clean, corrupted, saccade.logit_difference(right, wrong))
    found.top()
    found.figure(tokens)

The model runs on the corrupted input again and again. Each time, the output of one head at one position is replaced by
its output on the clean input (Vig 2020; Meng 2022, §2). If this patch alone restores the answer to the clean input, the
head at that position carries the information that decides the answer. What is measured is the metric, which can be any
number computed from the model's output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention import Edit, Trace, watch
from saccade.attention.watching.coverage import Coverage
from saccade.attention.watching.edit import applied, find_target
from saccade.attention.watching.interventions import HeadOutput, active_edits
from saccade.attention.watching.overview import ReportProgress
from saccade.errors import OptionError, ShapeError, UnknownNameError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from saccade.lens.figures.canvas import ThemeName

__all__ = ["Effect", "Metric", "Patching", "logit_difference", "patch"]

#: Computes a number from what the model returns.
Metric = Callable[[Any], float | Tensor]
#: The metric may differ between two runs of the same input by this fraction of the difference between the two inputs.
SAME = 1e-3


class Effect(NamedTuple):
    """One patched head, and the ``share`` of the difference between clean and corrupted metric that it restores."""

    name: str
    head: int
    position: int | None  # None: at all positions at once
    share: float  # 0: nothing; 1: all, so that the metric is the same as on the clean input

    def __str__(self) -> str:
        return f"{self.name}:{self.head}{'' if self.position is None else f' at {self.position}'} {self.share:+.3f}"


@dataclass(frozen=True, repr=False)
class Patching:
    """The metric after each patch: the replacement of one head's output at one position by that on the clean input."""

    clean: float  # the metric of the clean input
    corrupted: float
    metrics: Mapping[str, Float[Tensor, "H Q"]]  # by attention; one column if all positions are patched at once
    has_positions: bool
    num_forwards: int
    coverage: Coverage  # which attentions of the model were patched, and which cannot be

    @property
    def names(self) -> list[str]:
        return list(self.metrics)

    def shares(self, name: str) -> Float[Tensor, "H Q"]:
        """Return which share of the difference between the two inputs each patch of this attention restores.

        The share is computed from the metric: (patched - corrupted) / (clean - corrupted).
        """
        if name not in self.metrics:
            raise UnknownNameError("patched attention", name, self.metrics)
        return (self.metrics[name] - self.corrupted) / (self.clean - self.corrupted)

    def top(self, k: int = 5) -> list[Effect]:
        """Return the k patches that change the metric most, towards the clean metric or away from it."""
        every = [
            Effect(name, head, position if self.has_positions else None, float(share))
            for name in self.names
            for head, row in enumerate(self.shares(name))
            for position, share in enumerate(row)
        ]
        return sorted(every, key=lambda effect: -abs(effect.share))[:k]

    def figure(
        self,
        tokens: Sequence[str] | None = None,
        *,
        names: Sequence[str] | None = None,
        title: str | None = None,
        theme: ThemeName = "light",
    ) -> Figure:
        """Draw the share that each patch restores, with a row for each head and a column for each position.

        If all positions were patched at once, rows are attentions and columns are heads.
        """
        from saccade.lens.figures.patching import draw_patching

        return draw_patching(self, tokens, names, title, theme)

    def __repr__(self) -> str:
        summary = f"clean {self.clean:.4g}, corrupted {self.corrupted:.4g}, {self.num_forwards} forward passes"
        return f"Patching({summary}; {', '.join(map(str, self.top(3)))})"


def logit_difference(right: int, wrong: int, position: int = -1) -> Metric:
    """Return a metric for `patch`: the logit of the token ``right`` minus that of the token ``wrong``.

    The logits are those at ``position``, and the difference is averaged over the batch.
    """

    def metric(output: Any) -> Tensor:
        logits = getattr(output, "logits", output[0] if isinstance(output, tuple) else output)
        if not isinstance(logits, Tensor) or logits.ndim != 3:
            raise OptionError("logit_difference() needs an output of logits with shape (batch, positions, vocabulary).")
        at = logits[:, position]
        return (at[:, right] - at[:, wrong]).mean()

    return metric


@torch.no_grad()
def patch(
    model: nn.Module,
    clean: object,
    corrupted: object,
    metric: Metric,
    *,
    names: Sequence[str] | None = None,
    positions: bool = True,
    progress: ReportProgress | None = None,
) -> Patching:
    """Find the heads and positions that make a model's outputs for two inputs differ, by activation patching.

    It works on each model of Saccade or of another library whose attention ``watch`` can see and ``edit`` can change.

    Args:
        clean: the input with the right answer, as the model takes it: a mapping of named arguments, a tuple of
            arguments, or one tensor.
        corrupted: an input of the same length with another answer.
        metric: computes a number from the model's output, such as ``logit_difference(right, wrong)``.
        names: the attentions to patch, as ``watch`` names them; all if not given.
        positions: if true, patch each position by itself, with one forward pass for each; if false, all at once.
        progress: called with the fraction that is done; if not given, a progress bar is shown in a terminal.
    """
    if not isinstance(model, nn.Module):
        raise OptionError(f"patch() takes a torch module, not {type(model).__name__}.")
    if model.training:
        raise OptionError("patch() compares forward passes, and dropout makes them differ; call model.eval() first.")
    if active_edits():  # inside an edit, outputs differ from those that watch records
        raise OptionError("patch() makes its own edits, so it does not work inside saccade.edit; call it outside.")
    with watch(model, values=True) as seen:
        right = _measure(metric, _run(model, clean), "clean")
    traces, coverage = dict(seen), seen.coverage
    if not traces:
        raise OptionError(f"There is nothing to patch: {coverage}")
    with watch(model) as other:
        wrong = _measure(metric, _run(model, corrupted), "corrupted")
    _check_shapes(traces, {name: trace.shape for name, trace in other.items()})
    _check_metrics(right, wrong, _measure(metric, _run(model, corrupted), "corrupted"))
    chosen = list(traces) if names is None else list(names)
    for name in chosen:
        if name not in traces:
            raise UnknownNameError("watched attention", name, traces)
    sizes = {name: (traces[name].shape[1], traces[name].shape[2] if positions else 1) for name in chosen}
    metrics = {name: torch.empty(size, dtype=torch.float64) for name, size in sizes.items()}
    total = sum(found.numel() for found in metrics.values())
    done = 0
    with _reporting(progress) as report:
        for name in chosen:
            outputs = traces[name].outputs()
            for head in range(outputs.shape[1]):
                for position in range(metrics[name].shape[1]):
                    rows = range(position, position + 1) if positions else range(outputs.shape[2])
                    with applied(_edit_of(model, name, head, outputs[:, head], rows, traces)):
                        output = _run(model, corrupted)
                    metrics[name][head, position] = _measure(metric, output, f"patched {name}:{head}")
                    done += 1
                    report(done / total)
    return Patching(right, wrong, metrics, positions, 3 + total, coverage)


def _check_metrics(right: float, wrong: float, again: float) -> None:
    """Refuse a metric that is equal on both inputs, or that differs between two passes over the same input."""
    if right == wrong:
        raise OptionError(
            f"The metric is {right:g} on both inputs, so there is no difference that a patch could restore."
        )
    if abs(again - wrong) > SAME * abs(right - wrong):
        raise OptionError(
            f"The metric of the corrupted input is {wrong:g} in one forward pass and {again:g} in the next, so patches "
            "cannot be compared: the model samples at random, or a forward pass changes its own inputs, such as a "
            "cache."
        )


def _edit_of(
    model: nn.Module,
    label: str,
    head: int,
    output: Float[Tensor, "B Q V"],
    rows: range,
    traces: Mapping[str, Trace],
) -> Edit:
    """Return the edit that gives one head this output at these rows."""
    name, _, number = label.partition("#")
    use = int(number or 1) if number or f"{name}#2" in traces else None
    edit, target = find_target(model, name)
    if traces[label].only_call(head=head, batch=0) is not None and len(rows) == output.shape[1]:
        target.heads.append(HeadOutput(f"{label}:{head}", head, output, use=use))
    else:  # position by position: a decoder may compute one row at a time
        for row in rows:
            target.heads.append(HeadOutput(f"{label}:{head}", head, output[:, row : row + 1], row, use))
    return edit


def _run(model: nn.Module, inputs: object) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)


def _measure(metric: Metric, output: Any, what: str) -> float:
    found = metric(output)
    if isinstance(found, Tensor) and found.numel() != 1:
        raise ShapeError(f"The metric must be one number; for the {what} input it has shape {tuple(found.shape)}.")
    number = float(found)
    if number - number != 0:
        raise OptionError(f"The metric of the {what} input is {number}, not a finite number.")
    return number


def _check_shapes(clean: Mapping[str, Trace], corrupted: Mapping[str, tuple[int, int, int, int]]) -> None:
    for name, trace in clean.items():
        shape = corrupted.get(name)
        if shape is None:
            raise OptionError(f"The attention {name} ran on the clean input, but not on the corrupted one.")
        if trace.shape != shape:
            raise ShapeError(
                f"Both inputs must have the same number of tokens: {name} is (batch, heads, queries, keys) = "
                f"{trace.shape} on the clean input, but {shape} on the corrupted one."
            )


@contextmanager
def _reporting(progress: ReportProgress | None) -> Iterator[ReportProgress]:
    if progress is not None:
        yield progress
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("patching", total=1.0)
        yield lambda share: bar.update(task, completed=share)
