"""Measures models of trajectories: scenes of ETH/UCY, attention to other agents, and links in the built-in world.

SACCADE_DATA=... python benchmarks/trajectories.py scenes --output runs       every scene left out once
SACCADE_DATA=... python benchmarks/trajectories.py interactions --output runs  agent-aware, plain and alone, three seeds
python benchmarks/trajectories.py world runs/world                            who looks at whom in recipes/world.toml

``scenes`` trains each recipe ``recipes/eth-ucy-*.toml`` as it is, and once more with a network that sees each agent
alone and has the same loss. It prints ADE/FDE in metres, the best of 20 and the most likely one, beside constant
velocity. Runs that are complete are not repeated, so the command can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

import saccade
from saccade.data.paths import resolve_path
from saccade.data.tracks import Scene, read_tracks, windows
from saccade.data.world import WorldScene, generate_scenes
from saccade.tasks.trajectories.task import SamplingOptions, distances, walk_straight, walk_varied

RECIPES = Path(__file__).parents[1] / "recipes"
SCENES = ("eth", "hotel", "univ", "zara1", "zara2")
SEEDS = (1, 2, 3)
#: The network that sees each agent alone. It takes larger batches, because it is much faster.
MLP = {
    "model": {
        "kind": "mlp",
        "width": 64,
        "hidden_width": 256,
        "latent": 16,
        "diverse": 20,
        "turned": True,
    },
    "training": {"batch_paths": 256, "steps": 600, "lr": 2e-3, "validate_every": 300},
}
#: Training for the comparison of interactions, the same for all.
SHORT = {"training": {"steps": 500, "validate_every": 250}}


def trained(scene: str, name: str, changes: dict[str, dict[str, Any]], output: Path) -> dict[str, float]:
    """Train a recipe with changes, or continue it, and return its scores on the scene that was left out."""
    folder = output / name
    if not (folder / "result.json").is_file():
        tables = tomllib.loads((RECIPES / f"eth-ucy-{scene}.toml").read_text(encoding="utf-8"))
        if changes.get("model", {}).get("kind") == "mlp":
            tables["model"] = {}
        for table, values in changes.items():
            tables[table] |= values
        output.mkdir(parents=True, exist_ok=True)
        recipe = output / f"{name}.toml"
        recipe.write_text(tomli_w.dumps(tables), encoding="utf-8")
        command = [sys.executable, "-m", "saccade.cli", "train", str(recipe), "-o", str(folder), "--device", "cpu"]
        subprocess.run(command, check=True, stdout=sys.stderr)
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    scores: dict[str, float] = found["scores"]
    return scores


def left_out(scene: str) -> list[Scene]:
    """Return the windows of a scene with at least one agent."""
    tables = tomllib.loads((RECIPES / f"eth-ucy-{scene}.toml").read_text(encoding="utf-8"))
    files = [resolve_path(file) for file in tables["data"]["test_files"]]
    return [one for file in files for one in windows(read_tracks(file, None), 8, 12, stride=1, least_agents=1)]


def straight(scene: str) -> dict[str, float]:
    """Return the scores of constant velocity, plain and varied."""
    found = left_out(scene)
    plain = distances([walk_straight(one, 12)[None] for one in found], found)
    varied = distances([walk_varied(one, 12, SamplingOptions()) for one in found], found)
    return {"ade": plain["ade"], "fde": plain["fde"], "best_ade": varied["ade"], "best_fde": varied["fde"]}


def table(rows: Sequence[tuple[str, Sequence[tuple[float, float]]]], heads: Iterable[str]) -> None:
    print("| method | " + " | ".join(heads) + " |")
    print("|---" * (1 + len(rows[0][1])) + "|")
    for name, pairs in rows:
        print(f"| {name} | " + " | ".join(f"{ade:.3f}/{fde:.3f}" for ade, fde in pairs) + " |")


def with_mean(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    ades, fdes = zip(*pairs, strict=True)
    return [*pairs, (float(np.mean(ades)), float(np.mean(fdes)))]


def scenes(output: Path, only: Sequence[str]) -> None:
    networks: dict[str, dict[str, dict[str, Any]]] = {"agents": {}, "mlp": MLP}
    found = {
        kind: [trained(scene, f"{scene}-{kind}", changes, output) for scene in only]
        for kind, changes in reversed(networks.items())
    }
    found["straight"] = [straight(scene) for scene in only]
    names = {"agents": "agent-aware attention", "mlp": "each agent alone (MLP)", "straight": "constant velocity"}
    rows = [
        (f"{names[kind]}, {told}", with_mean([(one[f"{key}ade"], one[f"{key}fde"]) for one in found[kind]]))
        for key, told in (("best_", "best of 20"), ("", "most likely"))
        for kind in names
    ]
    table(rows, [*only, "mean"])


def interactions(output: Path, only: Sequence[str]) -> None:
    rows = []
    for scene in only:
        for kind in ("agent_aware", "plain", "alone"):
            each = [
                trained(
                    scene,
                    f"{scene}-{kind}-{seed}",
                    {"model": {"interaction": kind}, "training": SHORT["training"] | {"seed": seed}},
                    output,
                )
                for seed in SEEDS
            ]
            rows.append((f"{scene}, {kind}", with_mean([(one["best_ade"], one["best_fde"]) for one in each])))
    table(rows, [*(f"seed {seed}" for seed in SEEDS), "mean"])


def followers(scene: WorldScene) -> list[tuple[int, int]]:
    """Return the links of a follower to its leader: it is where the leader was some moments before."""
    found = []
    for follower, leader in scene.links:
        mine, theirs = scene.positions[:, follower], scene.positions[:, leader]
        if min(np.abs(mine[delay:] - theirs[: len(mine) - delay]).max() for delay in range(5, 8)) < 0.1:
            found.append((follower, leader))
    return found


def attention_to(answer: Any, follower: int, name: str, head: int) -> np.ndarray:
    """Return how much a follower's time steps look at each agent on average, summed over the time steps of that one."""
    count = len(answer.window.agents)
    weights = answer.view.matrix(name, head).numpy()
    by_agent = weights.reshape(len(weights), -1, count).sum(axis=1)
    found: np.ndarray = by_agent[follower::count].mean(axis=0)
    return found


def world(folder: Path, count: int) -> None:
    """Choose the head that finds most leaders in some scenes, and measure it, and cuts, in others."""
    model = saccade.open(folder)
    heads: dict[tuple[str, int], list[bool]] = {}
    for scene in generate_scenes(count, 1, part=4):
        answer = model.predict([scene], samples=1)[0]
        for name in answer.view.names:
            for head in range(answer.view.heads(name)):
                for follower, leader in followers(scene):
                    seen = attention_to(answer, follower, name, head)
                    seen[follower] = -1
                    heads.setdefault((name, head), []).append(int(seen.argmax()) == leader)
    name, head = max(heads, key=lambda one: float(np.mean(heads[one])))
    right: list[bool] = []
    moved: dict[str, list[float]] = {"leader": [], "another": []}
    for scene in generate_scenes(count, 1, part=5):
        answer = model.predict([scene], samples=1)[0]
        for follower, leader in followers(scene):
            seen = attention_to(answer, follower, name, head)
            seen[follower] = -1
            right.append(int(seen.argmax()) == leader)
            for other in range(len(scene.agents)):
                if other != follower:
                    change = without(model, scene, answer, follower, other)
                    moved["leader" if other == leader else "another"].append(change)
    share, count = 100 * float(np.mean(right)), len(right)
    print(f"{name}, head {head}: the leader is the strongest link for {share:.1f} % of {count} followers")
    own, other_one = (float(np.mean(moved[who])) for who in ("leader", "another"))
    print(f"cutting moves the end of a follower's path by {own:.3f} m (leader) and {other_one:.3f} m (another agent)")
    print(f"ratio {own / other_one:.1f}")


def without(model: Any, scene: WorldScene, answer: Any, follower: int, other: int) -> float:
    """Return how far the end of a follower's path moves if it cannot look at another agent in any attention."""
    links = []
    for name in answer.view.names:
        rows, columns = answer.view.axes(name)
        count = len(scene.agents)
        links += [
            (name, row, column)
            for row in range(follower, len(rows), count)
            for column in range(other, len(columns), count)
        ]
    with saccade.edit(model.model, without_links=links):
        changed = model.predict([scene], samples=1)[0]
    return float(np.linalg.norm(changed.likely[-1, follower] - answer.likely[-1, follower]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, known in (("scenes", SCENES), ("interactions", ("hotel", "zara1"))):
        one = commands.add_parser(name)
        one.add_argument("--output", type=Path, default=Path("runs"))
        one.add_argument("--only", nargs="+", choices=SCENES, default=known)
    one = commands.add_parser("world")
    one.add_argument("folder", type=Path)
    one.add_argument("--count", type=int, default=100, help="scenes to choose the head in, and to measure it in")
    given = parser.parse_args()
    if given.command == "world":
        world(given.folder, given.count)
    else:
        {"scenes": scenes, "interactions": interactions}[given.command](given.output, given.only)


if __name__ == "__main__":
    main()
