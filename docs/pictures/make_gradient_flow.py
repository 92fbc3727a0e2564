"""Draw docs/pictures/gradient-flow.png: what is left of the gradient after up to 50 steps back, cell by cell."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from saccade.recurrent import LSTM, Cell, gradient_flow

STEPS = 50
RADII = (0.5, 1.0, 1.5)
WIDTH = 32


def curves() -> dict[str, str | Cell]:
    """What to draw, by its label. The MUT cells' and torch's GRU's curves lie on the GRU's: one line stands for all."""
    torch.manual_seed(0)
    remembering = LSTM(WIDTH, WIDTH)
    with torch.no_grad():
        for matrix in remembering.recurrent_matrices():
            torch.nn.init.orthogonal_(matrix)
        remembering.bias[WIDTH : 2 * WIDTH] = 4.0
    return {"rnn": "rnn", "gru, mut1-3": "gru", "lstm, bias of f 1": "lstm", "lstm, bias of f 4": remembering}


def main() -> None:
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, len(RADII), sharey=True)
    for axes, radius in zip(panels, RADII, strict=True):
        for number, (label, cell) in enumerate(curves().items()):
            flow = gradient_flow(cell, STEPS, spectral_radius=radius, width=WIDTH, input_scale=0.01)
            flow.draw(axes, label, f"C{number}")
        axes.axhline(1, color="black", linewidth=0.6)
        axes.set_title(f"spectral radius {radius:g}", fontsize=10)
        axes.set_xlabel("t")
        axes.margins(x=0.02)
        axes.yaxis.set_major_locator(LogLocator(base=1e4, numticks=99))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=0.3)
    panels[0].set_ylabel(f"spectral norm of ∂h_T/∂h_t, T = {STEPS}")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(Path(__file__).with_name("gradient-flow.png"), dpi=110)


if __name__ == "__main__":
    main()
