"""The training loop against what can be computed beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny_runs import MODELS, sentences
from torch import Tensor, nn

from saccade.attention import watch
from saccade.data.pairs import Pair
from saccade.errors import DivergedError, OptionError
from saccade.tasks.base.networks import read_network
from saccade.tasks.translation.alignment import read_alignment
from saccade.tasks.translation.gold import from_pair
from saccade.tasks.translation.task import EncodedPair, TextSettings, Translation, TranslationState, TranslationTraining
from saccade.training import trainer as trainer_module
from saccade.training.checkpoint import CheckpointStore
from saccade.training.schedule import learning_rate
from saccade.training.trainer import Progress, Trainer

Act = Callable[[Trainer], None]


class Notes:
    """A listener that keeps what it is told, and may act after an update."""

    def __init__(self, trainer: Trainer, act: Act | None = None) -> None:
        self.trainer = trainer
        self.act = act
        self.losses: list[float] = []
        self.validated_at: list[int] = []
        self.saved: list[tuple[int, dict[str, Tensor]]] = []
        self.weights: list[dict[str, Tensor]] = []  # after each update

    def updated(self, progress: Progress, loss: float, rate: float, tokens: int) -> None:
        self.losses.append(loss)
        self.weights.append(weights_of(self.trainer.model))
        if self.act is not None:
            self.act(self.trainer)

    def validated(self, progress: Progress, model: nn.Module, improved: bool) -> None:
        self.validated_at.append(progress.step)

    def save(self) -> None:
        self.saved.append((self.trainer.progress.step, weights_of(self.trainer.model)))


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def make_trainer(kind: str = "transformer", count: int = 40, *, dropout: float = 0.0, **training: Any) -> Trainer:
    """A trainer with fresh weights, always the same."""
    pairs = [from_pair(Pair(source, target, line)) for line, (source, target) in enumerate(sentences(count), start=2)]
    values = {"steps": 6, "warmup": 0, "schedule": "constant", "batch_tokens": 64, "validate_every": 2, **training}
    settings = {"text": TextSettings(kind="word"), "training": TranslationTraining.read(values, "here")}
    task = Translation(TranslationState.prepare(settings, pairs), settings)
    torch.manual_seed(4)
    kind, config = read_network({**MODELS[kind], "dropout": dropout}, Translation, "here")
    model = task.build(kind, config)
    encoded = task.encode(pairs)
    return Trainer(task, model, encoded, encoded[:3])


def run(trainer: Trainer, act: Act | None = None) -> Notes:
    notes = Notes(trainer, act)
    trainer.run(lambda: None, notes)
    return notes


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    """What the next update would use, before it is clipped."""
    found: dict[str, Tensor] = {}
    trainer.optimizer.register_step_pre_hook(
        lambda *_: found.update({name: p.grad.clone() for name, p in trainer.model.named_parameters()})
    )
    return found


# --- one update ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
def test_accumulated_batches_are_one_large_batch(kind: str) -> None:
    parts, whole = (make_trainer(kind, clip=0, label_smoothing=0.1) for _ in range(2))
    examples = list(range(17))
    of_parts, of_whole = gradients(parts), gradients(whole)
    loss_of_parts = parts.update([examples[:2], examples[2:9], examples[9:]])
    loss_of_whole = whole.update([examples])
    assert loss_of_parts == pytest.approx(loss_of_whole, rel=1e-6)
    assert of_parts.keys() == of_whole.keys()
    assert any(gradient.abs().max() > 1e-3 for gradient in of_whole.values())
    for name, gradient in of_whole.items():
        torch.testing.assert_close(of_parts[name], gradient, rtol=1e-5, atol=1e-6)


def test_groups_take_every_example_once_an_epoch() -> None:
    trainer = make_trainer(accumulate=3)
    groups = trainer.groups()
    seen: list[int] = []
    while trainer.progress.epoch == 0 and len(seen) < len(trainer.train):
        group = next(groups)
        assert 1 <= len(group) <= 3
        seen += [example for batch in group for example in batch]
    assert sorted(seen) == list(range(40))
    next(groups)
    assert (trainer.progress.epoch, trainer.progress.position) == (1, 1)


def test_gradients_are_clipped_to_the_norm() -> None:
    def norm(clip: float) -> float:
        trainer = make_trainer(clip=clip)
        found = gradients(trainer)
        trainer.update([[0, 1, 2]])
        return math.sqrt(sum(float(gradient.double().square().sum()) for gradient in found.values()))

    free = norm(0)
    assert free > 0.25
    assert norm(free / 4) == pytest.approx(free / 4, rel=1e-5)
    assert norm(free * 4) == pytest.approx(free, rel=1e-5)


def test_label_smoothing_0_is_plain_cross_entropy() -> None:
    trainer = make_trainer(label_smoothing=0.0)
    examples: list[EncodedPair] = trainer.train[:5]
    batch = trainer.task.batch(examples)
    found = trainer.task.loss(trainer.model, batch)
    logits = trainer.model(batch.source, batch.source_lengths, batch.read)
    chosen = F.log_softmax(logits, dim=-1).gather(-1, batch.predicted[..., None])[..., 0]
    torch.testing.assert_close(found.total, -chosen[batch.real].sum(), rtol=1e-6, atol=0)
    assert found.count == batch.count == int(batch.real.sum())
    loss, _, tokens = trainer.update([list(range(5))])
    assert tokens == found.count
    assert loss == pytest.approx(found.total.item() / found.count, rel=1e-6)


def test_label_smoothing_mixes_in_the_mean_over_all_words() -> None:
    trainer = make_trainer(label_smoothing=0.25)
    batch = trainer.task.batch(trainer.train[:5])
    logits = trainer.model(batch.source, batch.source_lengths, batch.read)
    uniform = -F.log_softmax(logits, dim=-1).mean(dim=-1)[batch.real].sum()
    smoothed = trainer.task.loss(trainer.model.train(), batch).total
    plain = trainer.task.loss(trainer.model.eval(), batch).total  # which only training smooths
    torch.testing.assert_close(smoothed, 0.75 * plain + 0.25 * uniform, rtol=1e-5, atol=0)


def test_only_matrices_decay() -> None:
    trainer = make_trainer(weight_decay=0.5)
    decays = {p: group["weight_decay"] for group in trainer.optimizer.param_groups for p in group["params"]}
    for name, parameter in trainer.model.named_parameters():
        assert decays[parameter] == (0.5 if parameter.ndim >= 2 else 0.0), name


@pytest.mark.parametrize("kind", MODELS)
def test_bf16_learns_as_fp32_does(kind: str) -> None:
    coarse, fine = (run(make_trainer(kind, steps=20, precision=precision, lr=1e-2)) for precision in ("bf16", "fp32"))
    assert coarse.losses != fine.losses
    assert coarse.losses[0] == pytest.approx(fine.losses[0], rel=0.02)
    assert coarse.losses[-1] < coarse.losses[0] - 0.25
    assert all(weight.dtype == torch.float32 for weight in coarse.weights[-1].values())


# --- over many updates -----------------------------------------------------------------------------------------


def test_the_moving_average_is_the_hand_computed_one() -> None:
    trainer = make_trainer(final="ema", ema=0.75)
    expected = {name: weight.double() for name, weight in weights_of(trainer.model).items()}
    notes = run(trainer)
    for weights in notes.weights:
        expected = {name: 0.75 * value + 0.25 * weights[name].double() for name, value in expected.items()}
    assert trainer.ema is not None
    for name, value in trainer.ema.items():
        torch.testing.assert_close(value.double(), expected[name], rtol=1e-5, atol=1e-7)


def test_the_average_judges_but_is_not_what_goes_on() -> None:
    plain, averaged = (run(make_trainer(final=final, ema=0.5)) for final in ("last", "ema"))
    assert plain.losses == averaged.losses
    for (step, weights), (other_step, other) in zip(plain.saved, averaged.saved, strict=True):
        assert step == other_step
        assert all(torch.equal(weights[name], other[name]) for name in weights)


class Judged(Translation):
    """Scores as they are given, in turn."""

    given: tuple[float, ...] = ()

    def validate(self, model: nn.Module, examples: Any, *_: Any) -> dict[str, float]:
        first, *rest = self.given
        self.given = tuple(rest)
        return {self.metric: first}


@pytest.mark.parametrize(
    ("metric", "patience", "scores", "stops_at", "best_step"),
    [
        ("bleu", 2, (1.0, 3.0, 2.0, 3.0, 9.0, 9.0), 8, 4),  # the same score is no better
        ("bleu", 2, (1.0, 3.0, 2.0, 4.0, 4.0, 3.0), 12, 8),
        ("loss", 1, (3.0, 2.0, 1.0, 2.0, 0.0, 0.0), 8, 6),  # lower is better
        ("bleu", 0, (9.0, 1.0, 1.0, 1.0, 1.0, 1.0), 12, 2),
    ],
)
def test_patience(metric: str, patience: int, scores: tuple[float, ...], stops_at: int, best_step: int) -> None:
    trainer = make_trainer(steps=12, patience=patience)
    task = Judged(trainer.task.state, trainer.task.settings, metric)
    task.given = scores
    trainer.task = task
    notes = run(trainer)
    assert trainer.progress.finished
    assert (trainer.progress.step, trainer.progress.best_step) == (stops_at, best_step)
    assert notes.validated_at == list(range(2, stops_at + 1, 2))


def test_the_last_step_is_validated_wherever_it_falls() -> None:
    assert run(make_trainer(steps=5)).validated_at == [2, 4, 5]


@pytest.mark.parametrize("kind", MODELS)
def test_a_restored_trainer_goes_on_bit_for_bit(tmp_path: Path, kind: str) -> None:
    whole = run(make_trainer(kind, dropout=0.2, steps=8, final="ema", accumulate=2))
    stopped = make_trainer(kind, dropout=0.2, steps=8, final="ema", accumulate=2)

    class Enough(Exception):
        pass

    def leave(trainer: Trainer) -> None:
        if trainer.progress.step == 5:
            raise Enough

    with pytest.raises(Enough):
        run(stopped, leave)
    CheckpointStore(tmp_path).save(5, stopped.tensors(), stopped.state())
    again = make_trainer(kind, dropout=0.2, steps=8, final="ema", accumulate=2)
    again.restore(CheckpointStore(tmp_path).load(5))
    notes = run(again)
    assert notes.losses == whole.losses[5:]
    for name, weight in whole.weights[-1].items():
        assert torch.equal(notes.weights[-1][name], weight)


# --- numbers that are none -------------------------------------------------------------------------------------


def test_nan_stops_before_the_update() -> None:
    trainer = make_trainer()

    def poison(trainer: Trainer) -> None:
        if trainer.progress.step == 3:
            with torch.no_grad():
                next(trainer.model.parameters()).fill_(math.nan)

    notes = Notes(trainer, poison)
    with pytest.raises(DivergedError, match=r"The loss became nan at step 4 \(epoch 1, update 4; a batch of \d+ exa"):
        trainer.run(lambda: None, notes)
    assert [step for step, _ in notes.saved] == [2]
    assert trainer.progress.step == 3
    for name, parameter in list(trainer.model.named_parameters())[1:]:
        assert torch.equal(parameter, notes.weights[2][name])  # what came after step 3
        assert parameter.grad is None


def test_an_infinite_gradient_of_a_finite_loss_stops_too() -> None:
    trainer = make_trainer()
    before = weights_of(trainer.model)
    next(trainer.model.parameters()).register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(
        DivergedError, match=r"The gradient became (nan|inf) at step 1 .* lines \d+, .*no weights were up"
    ):
        run(trainer)
    assert all(torch.equal(before[name], value) for name, value in weights_of(trainer.model).items())


def test_a_validation_without_numbers_is_not_saved() -> None:
    trainer = make_trainer()
    task = Judged(trainer.task.state, trainer.task.settings)
    task.given = (1.0, math.nan)
    trainer.task = task
    notes = Notes(trainer)
    with pytest.raises(DivergedError, match=r"The validation score bleu became nan at step 4; the earlier checkpoints"):
        trainer.run(lambda: None, notes)
    assert [step for step, _ in notes.saved] == [2]


def test_weights_without_numbers_are_not_saved() -> None:
    trainer = make_trainer()

    def poison(trainer: Trainer) -> None:
        if trainer.progress.step == 4:
            with torch.no_grad():
                next(trainer.model.parameters()).fill_(math.nan)

    notes = Notes(trainer, poison)
    with pytest.raises(DivergedError, match=r"The validation score loss became nan at step 4; the earlier checkpoints"):
        trainer.run(lambda: None, notes)
    assert [step for step, _ in notes.saved] == [2]


# --- guided alignment ------------------------------------------------------------------------------------------


def linked_trainer(kind: str, weight: float) -> Trainer:
    """Words are linked by their place, backwards: what attention would not find by itself in a few steps."""
    trainer = make_trainer(kind, steps=30, lr=1e-2, guided_alignment=weight)
    trainer.train = [replace(pair, gold=replace(pair.gold, links=backwards(pair))) for pair in trainer.train]
    return trainer


def backwards(pair: EncodedPair) -> frozenset[tuple[int, int]]:
    last = len(pair.target) - 1
    return frozenset((last - i, i) for i in range(last + 1))


def weight_on_links(trainer: Trainer) -> float:
    """The mean over all links of the attention that the target word gives to the source word, in the last layer."""
    found: list[float] = []
    trainer.model.eval()
    for pair in trainer.train:
        batch = trainer.task.batch([pair])
        with torch.inference_mode(), watch(trainer.model) as seen:
            trainer.model(batch.source, batch.source_lengths, batch.read)
            matrix = read_alignment(seen, None, rows=len(pair.target), columns=len(pair.source))
        found += [matrix[target, source].item() for source, target in pair.gold.links]
    return sum(found) / len(found)


@pytest.mark.parametrize("kind", MODELS)
def test_guided_alignment_draws_attention_to_the_links(kind: str) -> None:
    free, guided = linked_trainer(kind, 0.0), linked_trainer(kind, 4.0)
    at_first = weight_on_links(guided)
    for trainer in (free, guided):
        groups = trainer.groups()
        for _ in range(30):
            trainer.update(next(groups))
    assert weight_on_links(guided) > at_first + 0.1
    assert weight_on_links(guided) > weight_on_links(free) + 0.1


def test_guided_alignment_validates_pairs_without_links() -> None:
    trainer = linked_trainer("transformer", 1.0)
    notes = Notes(trainer)
    trainer.run(lambda: None, notes)  # the validation pairs have none
    assert notes.validated_at[-1] == trainer.settings.steps
    assert trainer.task.probe(trainer.model, trainer.train[0]).inputs  # an output of another length has none either


def test_guided_alignment_refuses_pairs_without_links() -> None:
    trainer = make_trainer(guided_alignment=1.0)
    with pytest.raises(OptionError, match=r"training.guided_alignment needs gold links, but line \d+ has none"):
        run(trainer)


def test_when_the_time_is_up_a_validation_ends_the_run() -> None:
    trainer = make_trainer(steps=60, validate_every=20, minutes=1)
    trainer.progress.seconds = 60.0  # of an earlier session
    assert run(trainer).validated_at == [1]
    assert trainer.progress.finished
    unhurried = make_trainer(steps=3, validate_every=2, minutes=1e6)
    assert run(unhurried).validated_at == [2, 3]


class Clock:
    """A clock that only moves with updates and validations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, trainer: Trainer, speed: Callable[[int], float], check: float):
        self.now = 50.0
        self.rates: list[float] = []
        monkeypatch.setattr(trainer_module, "time", SimpleNamespace(monotonic=lambda: self.now))

        def update(group: list[list[int]]) -> tuple[float, float, int]:
            trainer.progress.step += 1
            self.now += speed(trainer.progress.step)
            self.rates.append(learning_rate(trainer.settings, trainer.progress.step, trainer.progress.end))
            return 1.0, self.rates[-1], 1

        def validate(model: object, examples: Sequence[object], *_: object) -> dict[str, float]:
            self.now += check * len(examples) / len(trainer.sample)
            return {trainer.task.metric: 1.0}

        monkeypatch.setattr(trainer, "update", update)
        monkeypatch.setattr(trainer.task, "validate", validate)


@pytest.mark.parametrize(
    ("seconds", "end"),
    [
        (1.0, None),  # 400 updates in 400 s of 600
        (3.0, 200),  # after 20 updates 60 s have passed, and 540 s are enough for 180 more
        (29.0, 20),  # after 2 updates 58 s have passed, and 542 s are enough for 18 more
    ],
)
def test_a_schedule_is_shortened_to_the_time(monkeypatch: pytest.MonkeyPatch, seconds: float, end: int | None) -> None:
    trainer = make_trainer(steps=400, validate_every=400, warmup=40, schedule="cosine", minutes=10)
    clock = Clock(monkeypatch, trainer, lambda step: seconds, check=0.0)
    notes = run(trainer)
    assert trainer.progress.end == end
    assert notes.validated_at == [end or 400]
    assert trainer.progress.finished
    assert clock.rates[-1] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("before", [0.0, 120.0])
@pytest.mark.parametrize("closing", [0.0, 3.0])
@pytest.mark.parametrize("check", [1.0, 11.0])
@pytest.mark.parametrize(
    "speed",
    [lambda step: 0.5, lambda step: 3.0, lambda step: 1.0 + step / 100, lambda step: 4.0 if step < 90 else 1.0],
    ids=["fast", "slow", "slower and slower", "slow at first"],
)
def test_a_run_ends_in_its_time(
    monkeypatch: pytest.MonkeyPatch, speed: Callable[[int], float], check: float, closing: float, before: float
) -> None:
    """Including what was done before, such as reading, and what follows, which takes ``closing`` validations."""
    trainer = make_trainer(steps=400, validate_every=40, warmup=40, schedule="cosine", minutes=10)
    trainer.closing, trainer.progress.seconds = closing, before
    clock = Clock(monkeypatch, trainer, speed, check)
    run(trainer)
    spent = before + clock.now - 50 + closing * check
    assert trainer.progress.seconds == before + clock.now - 50
    assert spent <= 1.1 * 600
    assert trainer.progress.step == 400 or spent >= 0.85 * 600  # no time is given away
    assert clock.rates[-1] < 0.1 * trainer.settings.lr  # the schedule came to its end


@pytest.mark.parametrize("seconds", [0.5, 3.0, 40.0])
def test_time_is_reserved_for_the_first_validation_too(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """It is the only one here, and with the final test takes a third of the time."""
    trainer = make_trainer(steps=4000, validate_every=4000, minutes=10)
    trainer.closing = 1.0
    clock = Clock(monkeypatch, trainer, lambda step: seconds, check=100.0)
    numbers = torch.get_rng_state()
    trainer.reserve()
    assert torch.equal(torch.get_rng_state(), numbers)
    trainer.progress.seconds = clock.now - 50
    run(trainer)
    assert 0.85 * 600 <= clock.now - 50 + 100 <= 1.1 * 600


def test_slow_validations_leave_time_for_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """An untrained network may write such long texts that validation and test seem to need more than all the time."""
    trainer = make_trainer(steps=400, validate_every=200, minutes=10)
    trainer.closing = 3.0
    clock = Clock(monkeypatch, trainer, lambda step: 1.0, check=3000.0)
    trainer.reserve()
    trainer.progress.seconds = 0.0
    clock.now = 50.0
    run(trainer)
    assert trainer.progress.step == 200  # the first validation took the rest of the time


def test_the_end_moves_back_when_the_machine_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(steps=400, validate_every=400, warmup=40, schedule="cosine", minutes=10)
    Clock(monkeypatch, trainer, lambda step: 4.0 if step <= 40 else 1.0, check=0.0)
    run(trainer)  # after 20 updates there is time for 150; in all, 160 s + 360 s are enough
    assert (trainer.progress.end, trainer.progress.step) == (None, 400)


def test_a_shortened_schedule_is_kept_and_an_extension_forgets_it(tmp_path: Path) -> None:
    trainer = make_trainer(steps=60, minutes=10)
    trainer.progress.end, trainer.progress.step, trainer.progress.finished = 30, 30, True
    store = CheckpointStore(tmp_path, 1)
    store.save(30, trainer.tensors(), trainer.state())
    checkpoint = store.load(30)
    for extended, last, finished in ((False, 30, True), (True, 60, False)):
        again = make_trainer(steps=60, minutes=10)
        again.restore(checkpoint, extended)
        assert (again.last_step, again.progress.finished) == (last, finished)
