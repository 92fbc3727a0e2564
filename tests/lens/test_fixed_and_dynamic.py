"""A fixed matrix compared with attention weights (lecture 000): W stays the same, A changes."""

from __future__ import annotations

import pytest
import torch
from typer.testing import CliRunner

from saccade.cli.main import app
from saccade.errors import OptionError
from saccade.lens import EXAMPLES
from saccade.lens.walk.fixed import fixed_and_dynamic


def test_w_stays_and_a_changes() -> None:
    (_, first), (_, second) = fixed_and_dynamic(EXAMPLES["projection"])
    one, two = ({step.name: step.values for step in steps} for steps in (first, second))
    assert torch.equal(one["W_fixed"], two["W_fixed"])
    assert not torch.allclose(one["weights"], two["weights"])
    torch.testing.assert_close(one["weights"][0], torch.tensor([2.0, 4.0, 4.0]).double().softmax(0))  # lecture 001
    # by hand: (1, 0, 1, 0) W_V = row 1 + row 3, and (0, 1, 0, 1) W_V = row 2 + row 4
    assert one["feedforward"][0].tolist() == [1.0, 2.0, 3.0]
    assert two["feedforward"][0].tolist() == [1.0, 4.0, 0.0]


@pytest.mark.parametrize("name", ["retrieval", "heads"])
def test_what_it_needs_is_named(name: str) -> None:
    with pytest.raises(OptionError, match="needs inputs, W_query, W_key, W_value and one head"):
        fixed_and_dynamic(EXAMPLES[name])


def test_the_command_prints_both_inputs() -> None:
    found = CliRunner().invoke(app, ["explain", "--fixed"], env={"COLUMNS": "200"})
    assert found.exit_code == 0
    assert found.stdout.count("W (fixed)") == 2
    assert "0.4683" in found.stdout
    refused = CliRunner().invoke(app, ["explain", "--fixed", "--row", "1"])
    assert refused.exit_code != 0
