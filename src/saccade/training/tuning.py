"""``saccade tune``: find better settings for a recipe by successive halving, with Optuna.

Each trial trains with different settings, the first one with those of the recipe. After a ninth of its updates, and
again after a third, a trial only continues if it is in the best third of the trials that got this far (Li 2020, "A
System for Massively Parallel Hyperparameter Tuning"). The folder keeps a journal of all trials, so that a search that
was stopped can be continued.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from saccade.errors import DivergedError, OptionError, counted
from saccade.extras import needs_extra
from saccade.storage import write_file
from saccade.tasks.base.data import Say
from saccade.training.recipe import Recipe, read_recipe, read_tables
from saccade.training.recipe_text import commented
from saccade.training.recommendation import FOR_UPDATES, measured_speed
from saccade.training.threads import at_most_threads
from saccade.training.trainer import Progress, Trainer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

__all__ = ["tune"]

#: How many complete trials fit into the time (most trials end much earlier), and how often each validates.
WHOLE_TRIALS, VALIDATIONS = 4, 9
#: The weight of the loss beside the metric: so small that the loss only decides between trials with equal scores.
TIE_BREAK = 1e-7
#: The factor by which the learning rate may differ from the recipe's, and the values of other settings that are tried.
RATE_FACTOR = 20.0
TRIED = {
    "training.warmup": (0.02, 0.05, 0.1, 0.2),  # as a fraction of the updates
    "training.weight_decay": (0.0, 0.01, 0.1),
    "training.label_smoothing": (0.0, 0.1),
    "model.dropout": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
}


class _TuningSearch:
    """A search for better settings: the recipe, the trials so far, and the data that all trials use."""

    def __init__(self, recipe: Recipe, folder: Path, minutes: float, device: str, say: Say) -> None:
        self.recipe, self.folder, self.minutes, self.device, self.say = recipe, folder, minutes, device, say
        self.splits = recipe.entry.data.read(recipe.settings["data"], recipe.training.seed).require_some()
        self.state = recipe.task.prepare(recipe.settings, self.splits.train)
        task = recipe.build_task(self.state)
        self.examples, self.validation = task.encode(self.splits.train), task.encode(self.splits.validation)
        self.sign = -1 if task.metric_is_loss else 1
        self.study = self._open()
        self.steps: int = self.study.user_attrs["steps"]
        spent = sum(one.duration.total_seconds() for one in self.study.trials if one.duration is not None)
        self.deadline = time.monotonic() + 60 * minutes - spent

    def _open(self) -> Study:
        """Open the study in the folder, or create one whose first trial has the recipe's own settings."""
        with needs_extra("tune", "saccade tune"):
            import optuna
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = self.folder / "recipe.toml"
        if kept.exists() and (differences := self.recipe.differences(read_recipe(kept, saved=True))):
            raise OptionError(
                f"{self.folder} contains a search for another recipe ({differences[0]}); give another folder with -o."
            )
        write_file(kept, self.recipe.toml().encode())
        study = optuna.create_study(
            study_name="tune",
            storage=JournalStorage(JournalFileBackend(str(self.folder / "journal.log"))),
            sampler=optuna.samplers.TPESampler(seed=self.recipe.training.seed),
            direction="maximize",
            load_if_exists=True,
        )
        if "steps" not in study.user_attrs:
            began, worked = time.monotonic(), time.process_time()
            speed = measured_speed(self.recipe, self.splits, self.device)
            seconds = speed.seconds
            if self.device == "cpu":  # allow for other work on the machine, because the length of trials is fixed now
                seconds *= max(1.0, (time.monotonic() - began) / (time.process_time() - worked))
                study.set_user_attr("threads", speed.threads)
            affordable = int(FOR_UPDATES * 60 * self.minutes / WHOLE_TRIALS / seconds)
            study.set_user_attr("steps", max(VALIDATIONS, min(self.recipe.training.steps, affordable)))
            study.enqueue_trial({key: values[0] for key, values in self._values().items()})
        steps = study.user_attrs["steps"]
        study.pruner = optuna.pruners.SuccessiveHalvingPruner(max(1, steps // VALIDATIONS), reduction_factor=3)
        for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):  # of a process that was killed
            study._storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)
        return study

    def _values(self) -> dict[str, list[float]]:
        """The values to try for each key, beginning with the recipe's own."""
        tables, training = self.recipe.tables(), self.recipe.training
        own: dict[str, float] = {"training.lr": training.lr, "training.warmup": training.warmup / training.steps}
        for key in TRIED:
            table, _, name = key.partition(".")
            if name in tables[table]:
                own.setdefault(key, tables[table][name])
        return {key: [value, *(one for one in TRIED.get(key, ()) if one != value)] for key, value in own.items()}

    def recipe_of(self, parameters: dict[str, float], steps: int) -> Recipe:
        """The recipe with these settings and this number of updates."""
        values: dict[str, Any] = {**parameters, "training.steps": steps}
        values["training.warmup"] = int(values["training.warmup"] * steps)
        overrides = [f"{key}={value}" for key, value in values.items()]
        return read_tables(self.recipe.tables(), "the trial", overrides)

    def objective(self, trial: Trial) -> float:
        """Train with the settings of a trial, and return its best validation score; higher is better."""
        chosen = {
            key: trial.suggest_float(key, values[0] / RATE_FACTOR, values[0] * RATE_FACTOR, log=True)
            if key == "training.lr"
            else trial.suggest_categorical(key, values)
            for key, values in self._values().items()
        }
        every = [f"training.validate_every={max(1, self.steps // VALIDATIONS)}", "training.patience=0"]
        recipe = read_tables(self.recipe_of(chosen, self.steps).tables(), "the trial", every)
        task = recipe.build_task(self.state)
        torch.manual_seed(recipe.training.seed)
        trainer = Trainer(task, task.build(recipe.kind, recipe.model), self.examples, self.validation, self.device)
        reporter = _Reporter(trial, recipe.metric, self.sign, self.steps)
        with at_most_threads(recipe.training.threads or self.study.user_attrs.get("threads")):
            trainer.run(self._check, reporter)
        return max(reporter.values)

    def _check(self) -> None:
        from optuna import TrialPruned

        if time.monotonic() > self.deadline:
            raise TrialPruned("The time is up.")

    def run(self) -> None:
        """Try settings until the time is up."""
        while time.monotonic() < self.deadline:
            self.study.optimize(self.objective, n_trials=1, catch=(DivergedError,))
            trial = self.study.trials[-1]
            self.say(f"  trial {trial.number}: {_line(trial, self.sign)}")


class _Reporter:
    """Tells Optuna each validation score, and ends a trial that is not among the best."""

    def __init__(self, trial: Trial, metric: str, sign: int, steps: int) -> None:
        self.trial, self.metric, self.sign, self.steps = trial, metric, sign, steps
        self.values: list[float] = []

    def updated(self, progress: Progress, loss: float, rate: float, tokens: int) -> None:
        pass

    def validated(self, progress: Progress, model: nn.Module, improved: bool) -> None:
        from optuna import TrialPruned

        value = self.sign * progress.scores[self.metric] - TIE_BREAK * progress.scores.get("loss", 0.0)
        self.values.append(value)
        self.trial.report(value, progress.step)
        if progress.step < self.steps and self.trial.should_prune():  # at its end, a trial has finished
            raise TrialPruned

    def save(self) -> None:
        pass


def tune(recipe: Recipe, folder: Path, minutes: float, device: str, say: Say) -> Recipe:
    """Search for better settings for this many minutes, and write ``best.toml``, ``trials.tsv`` and ``trials.png``.

    Returns the recipe with the best settings that were found, and with as many updates as it had before the search.
    """
    search = _TuningSearch(recipe, folder, minutes, device, say)
    scored = min(getattr(recipe.training, "validation_sample", len(search.validation)), len(search.validation))
    say(
        f"Each trial has at most {counted(search.steps, 'update')}, and is scored by {recipe.metric} on "
        f"{counted(scored, 'validation example')}."
    )
    search.run()
    study, sign = search.study, search.sign
    validated = [one for one in study.trials if one.intermediate_values]
    if not validated:
        raise OptionError(
            f"No trial reached its first validation within {counted(minutes, 'minute')}; allow more minutes."
        )
    best = max(validated, key=_value)
    found = search.recipe_of(best.params, recipe.training.steps)
    heading = [f"The best of {counted(len(study.trials), 'trial')}: {recipe.metric} {sign * _value(best):z.2f}."]
    write_file(folder / "best.toml", commented(found, heading).encode())
    write_file(folder / "trials.tsv", _table(study.trials, sign).encode())
    _figure(study.trials, sign, recipe.metric).savefig(folder / "trials.png", dpi=150)
    say(_comparison(study.trials[0], best, recipe.metric, search.steps, sign))
    return found


def _value(trial: FrozenTrial) -> float:
    """Return the best score of a trial so far, because even a trial that ran out of time may be the best."""
    return max(trial.intermediate_values.values()) if trial.value is None else trial.value


def _comparison(own: FrozenTrial, best: FrozenTrial, metric: str, steps: int, sign: int) -> str:
    """Compare the best trial with the first one, which has the recipe's own settings."""
    whole = f"all {counted(steps, 'update')}"
    first = "unknown, because trial 0 did not finish"
    if own.state.name == "COMPLETE":
        first = f"{sign * _value(own):z.2f} (trial 0, {whole})"
    if best.state.name != "COMPLETE":
        whole = f"which was stopped after {counted(best.last_step or 0, 'update')}"
    found = f"{sign * _value(best):z.2f} (trial {best.number}, {whole})"
    return f"Best {metric}: {found}. With the recipe's own settings: {first}."


def _line(trial: FrozenTrial, sign: int) -> str:
    settings = "  ".join(f"{key.partition('.')[2]} {value:.3g}" for key, value in trial.params.items())
    score = f"{sign * _value(trial):z.2f}" if trial.intermediate_values else "none"
    ended = {"COMPLETE": "to the end", "FAIL": "did not end"}.get(
        trial.state.name, f"ended at {trial.last_step or 0:,}"
    )
    return f"{score} ({ended})  {settings}"


def _table(trials: list[FrozenTrial], sign: int) -> str:
    keys = list(dict.fromkeys(key for trial in trials for key in trial.params))
    rows = [["trial", "state", "step", "score", *keys]]
    for trial in trials:
        score = f"{sign * _value(trial):z.4f}" if trial.intermediate_values else ""
        settings = [f"{trial.params[key]:.6g}" if key in trial.params else "" for key in keys]
        rows.append([str(trial.number), trial.state.name.lower(), str(trial.last_step or 0), score, *settings])
    return "".join("\t".join(row) + "\n" for row in rows)


def _figure(trials: list[FrozenTrial], sign: int, metric: str) -> Figure:
    """The validation scores of each trial by number of updates; the thick line shows the recipe's own settings."""
    with needs_extra("plots", "A picture of the trials"):
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="updates", ylabel=metric, title="Validation scores of the trials")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for trial in trials:
        steps = list(trial.intermediate_values)
        values = [sign * value for value in trial.intermediate_values.values()]
        own = {"linewidth": 3, "color": "black", "label": "the recipe"} if trial.number == 0 else {"linewidth": 1}
        axes.plot(steps, values, marker=".", **own)
    axes.legend(frameon=False)
    return figure
