"""Find stacks: self-attention layers that follow each other, whose weights a rollout multiplies.

In Saccade's own models, the names say which layers follow each other. In other models, one layer follows another if its
queries were computed from the output of the other, which ``Trace.place`` records. If the weights of a layer in a stack
cannot be shown, the stack has no rollout, because the rollout would silently leave that layer out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from saccade.attention import Trace
from saccade.attention.watching.coverage import SCRIPTED, Coverage
from saccade.attention.watching.foreign.lineage import LOST
from saccade.attention.watching.foreign.steps import Gap
from saccade.attention.watching.trace import Place
from saccade.attention.watching.watch import UNREPORTED
from saccade.errors import OptionError, UnknownNameError
from saccade.lens.given import GivenTrace

__all__ = ["Stacks", "choose_stack", "find_stacks"]


class Stacks(NamedTuple):
    """The stacks by name: the layers of each complete stack, from first to last, and why the others have no rollout."""

    whole: dict[str, list[str]]
    broken: dict[str, str]


def find_stacks(
    traces: Mapping[str, Trace], is_self: Callable[[str], bool], gaps: Iterable[Gap], coverage: Coverage | None = None
) -> Stacks:
    """Return all stacks; a stack is named after its layers, with * for the layer number, as in ``encoder.*.self``."""
    chains: list[list[str]] = []
    for name in filter(is_self, traces):
        chain = next((chain for chain in reversed(chains) if _follows(chain[-1], name, traces)), None)
        if chain is None:
            chains.append([name])
        else:
            chain.append(name)
    found = Stacks({}, {})
    for chain in chains:
        stack = " + ".join(dict.fromkeys(map(_pattern, chain)))
        if sum(_pattern(other[0]) == _pattern(chain[0]) for other in chains) > 1:
            stack = f"{stack} of {traces[chain[0]].shape[2]} tokens"
        if stack in found.whole or stack in found.broken:
            stack = f"{stack}, from {chain[0]}"
        reason = _missing(chain, traces, gaps)
        if reason is None and coverage is not None and traces[chain[0]].place is not None:
            reason = _unreported(coverage)
        if reason is None:
            found.whole[stack] = chain
        else:
            found.broken[stack] = reason
    return found


def choose_stack(stacks: Stacks, name: str | None, attentions: Sequence[str]) -> list[str]:
    """Return the names of the layers in the stack called ``name``, or in the first stack if ``name`` is None."""
    whole, broken = stacks
    if broken and (name in broken or not whole):
        lost = name if name in broken else next(iter(broken))
        raise OptionError(f"There is no rollout of {lost}: {broken[lost]}.")
    if not whole:
        raise OptionError(
            "A rollout needs self-attention whose rows and columns are the same tokens; there is none among "
            f"{', '.join(attentions)}."
        )
    if name is not None and name not in whole:
        raise UnknownNameError("stack of self-attentions", name, whole)
    return whole[name or next(iter(whole))]


def _follows(last: str, name: str, traces: Mapping[str, Trace]) -> bool:
    """Return whether the attention ``name`` comes after the attention ``last`` in the same stack."""
    before, after = traces[last], traces[name]
    if (before.shape[0], before.shape[2]) != (after.shape[0], after.shape[2]):
        return False
    if before.place is None or after.place is None:
        return before.place is after.place and _pattern(last) == _pattern(name)
    return before.place.number in after.place.before


def _missing(chain: list[str], traces: Mapping[str, Trace], gaps: Iterable[Gap]) -> str | None:
    """Return why this stack has no rollout, such as an attention that it would leave out; None if it has one."""
    places = [traces[name].place for name in chain]
    last = places[-1]
    if last is None:
        excessive = next((name for name in chain if _is_excessive(traces[name])), None)
        if excessive is not None:
            return f"rows of {excessive} sum to more than 1, as after dropout, so they are not the weights of a softmax"
        names = list(traces)
        between = names[names.index(chain[0]) : names.index(chain[-1])]
        other = next((name for name in between if name not in chain and _pattern(name) == _pattern(chain[-1])), None)
        if other is not None:
            return f"it would leave out {other}, which has another number of tokens or texts"
        if any(traces[name].is_one_of_many for name in chain):
            return "other parts of the model mix tokens too, in a way that no weights show"
        lost = next((gap for gap in gaps if gap.place is None and _pattern(gap.name) == _pattern(chain[-1])), None)
        return None if lost is None else f"it would leave out {lost.name}: {lost.reason}"
    partial = [name for name, place in zip(chain, places, strict=True) if place is not None and not place.is_whole]
    if partial:
        return f"{partial[0]} attends within parts of the input, such as windows, so its rows are not all the tokens"
    foreign = next((name for name in chain if (place := traces[name].place) and not place.has_own_values), None)
    if foreign is not None:
        return f"the values that {foreign} mixes are not known to be the tokens of its keys"
    members = {place.number for place in places if place is not None}
    across = {trace.place.number for trace in traces.values() if trace.place and trace.place.source == "cross"}
    others = [
        *((name, trace.place, "it is not a self-attention over the same tokens") for name, trace in traces.items()),
        *((gap.name, gap.place, gap.reason) for gap in gaps),
    ]
    stray = next((name for name, trace in traces.items() if trace.place and LOST in trace.place.before), None)
    if stray is not None and len(chain) < len(traces):
        return f"it is not known which attentions come before {stray}, so the rollout might leave some out"
    for name, place, reason in others:
        if place is None or place.number in members | across:
            continue
        if place.number in last.before or not members.isdisjoint(place.before):
            return f"it would leave out {name}: {reason}"
        if not members.isdisjoint(place.beside):
            return f"it would leave out {name}, which is not before or after {chain[0]}, but beside it"
    if not last.before <= members | across | {LOST}:
        return (
            f"{chain[-1]} follows an attention that is not shown here, or its tokens were reordered or mixed before "
            f"it{_by(last)}"
        )
    first = places[0]
    if first is not None and first.is_mixed:
        return f"the tokens were mixed before {chain[0]}, in a way that no weights show{_by(first)}"
    return None


def _unreported(coverage: Coverage) -> str | None:
    """Return why a stack may lack a part that torch did not report while it ran; None if there is no such part."""
    scripted = next((name for name, reason in coverage.unseen.items() if reason == SCRIPTED), None)
    if scripted is not None:
        return f"it would leave out {scripted}: {SCRIPTED}"
    return f"it might leave something out: {UNREPORTED}" if UNREPORTED in coverage.notes else None


def _is_excessive(trace: Trace) -> bool:
    return isinstance(trace, GivenTrace) and trace.is_excessive


def _by(place: Place) -> str:
    return "" if place.change is None else f" (by {place.change})"


def _pattern(name: str) -> str:
    return re.sub(r"\d+", "*", re.sub(r"#\d+$", "", name))
