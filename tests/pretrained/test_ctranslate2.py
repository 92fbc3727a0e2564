"""CTranslate2 writes what our own search writes, from the same weights; what it cannot express is refused by name."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from tiny import CONTINUING, LENGTH, VOCABULARY, save

import saccade
from saccade.errors import DivergedError, OptionError, StaleTraceError
from saccade.pretrained import read_pretrained
from saccade.pretrained.ctranslate2 import SpecialEntries, specification
from saccade.tasks.base.automatic import FEWEST, faster
from saccade.tasks.base.engines import TranslationEngine
from saccade.tasks.base.model_folder import read_bundle
from saccade.tasks.base.search import SearchOptions
from saccade.tasks.translation.predictor import TranslationPredictor
from saccade.tasks.translation.task import Translation, TranslationState
from saccade.text import END, Tokenizer
from untrained import ENGLISH, FRENCH, write_untrained

TRANSLATORS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm": {"norm_first": False},
    "Llama-like": {"gated": True, "norm": "rms", "bias": False, "position": "rotary"},
    "BART-like": {"position": "learned", "embedding_norm": True, "scaled_embedding": True},
    "grouped heads": {"num_heads": 4, "num_key_heads": 2},
    "no positions": {"activation": "gelu_tanh", "position": "none", "tied_output": False, "output_bias": True},
    "wide heads": {"head_width": 5},
}


@pytest.fixture
def translator(tmp_path: Path) -> Any:
    def make(**fields: Any) -> Path:
        task = Translation(TranslationState(Tokenizer.train(FRENCH, "word"), Tokenizer.train(ENGLISH, "word")))
        return write_untrained(tmp_path / "model", task, SearchOptions(beam=1), **fields)

    return make


@pytest.mark.parametrize("name", TRANSLATORS)
def test_greedy_translations_are_the_same_token_for_token(translator: Any, name: str) -> None:
    folder = translator(**TRANSLATORS[name])
    ours, theirs = (saccade.open(folder, engine=engine).predict(FRENCH[:20]) for engine in ("torch", "ctranslate2"))
    assert [one.text for one in ours] == [one.text for one in theirs]
    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)
    assert len({one.text for one in ours}) > 1
    weights = [one.attention.view.matrix("decoder.1.cross", 0) for one in (ours[3], theirs[3])]
    torch.testing.assert_close(*weights, rtol=0, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in CONTINUING if name not in ("mistral", "llama stretched", "llama 3")])
def test_a_text_gives_the_same_logits(name: str, tmp_path: Path) -> None:
    ours = read_pretrained(save(CONTINUING[name](), tmp_path / "theirs")).network
    entries = [f"t{id}" for id in range(VOCABULARY)]
    folder = tmp_path / "converted"
    folder.mkdir()
    specification(ours, entries, entries, SpecialEntries("t2", "t1", "t0")).save(str(folder))
    generator = ctranslate2.Generator(str(folder), compute_type="float32", intra_threads=1)
    tokens = torch.randint(VOCABULARY, (3, LENGTH))
    found = generator.forward_batch([[entries[id] for id in row] for row in tokens.tolist()])
    torch.testing.assert_close(torch.from_numpy(np.array(found)), ours(tokens), rtol=1e-4, atol=1e-4)


def test_an_edited_or_sampled_answer_is_that_of_torch(translator: Any) -> None:
    opened = [saccade.open(translator(), engine=engine) for engine in ("torch", "ctranslate2")]
    plain = [one.text for one in opened[1].predict(FRENCH[:9])]
    edited = []
    for one in opened:
        with saccade.edit(one.model, without_heads=["decoder.0.cross:0", "decoder.0.cross:1"]):
            edited.append([answer.text for answer in one.predict(FRENCH[:9])])
    assert edited[0] == edited[1] != plain
    sampled = [[answer.text for answer in one.predict(FRENCH[:9], sample=True)] for one in opened]
    assert sampled[0] == sampled[1] != plain


def test_the_limit_on_the_length_is_that_of_each_text(translator: Any) -> None:
    texts = [FRENCH[0], " ".join(FRENCH[:6])]
    opened = [saccade.open(translator(), engine=engine) for engine in ("torch", "ctranslate2")]
    found = [[len(answer.text.split()) for answer in one.predict(texts, max_ratio=0.5)] for one in opened]
    assert found[0] == found[1]
    assert len(set(found[0])) == 2


@pytest.mark.parametrize("beam", [1, 3])
def test_an_output_that_is_cut_off_has_the_tokens_and_the_score_of_torch(translator: Any, beam: int) -> None:
    texts = [FRENCH[0], " ".join(FRENCH[:6]), *FRENCH[1:5]]
    opened = [saccade.open(translator(), engine=engine) for engine in ("torch", "ctranslate2")]
    ours, theirs = (one.predict(texts, max_ratio=0.5, beam=beam) for one in opened)
    assert any(not answer.finished for answer in ours)
    for one, other in zip(ours, theirs, strict=True):
        assert (one.ids, one.finished) == (other.ids, other.finished)
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_scores_of_greedy_search_are_the_same_if_they_are_computed_later(translator: Any, precision: str) -> None:
    bundle = read_bundle(translator(**TRANSLATORS["no positions"]))
    with torch.no_grad():
        bundle.model.get_parameter("output.words.bias")[END] = 1.5  # so that some outputs end
    engine = TranslationEngine(bundle.task, bundle.model, "cpu", precision)
    opened = TranslationPredictor(bundle, engine=engine)
    texts = [*FRENCH[:9], " ".join(FRENCH)]
    later = opened.predict(texts)
    opened.reads_scores = True
    at_once = opened.predict(texts)
    assert [one.hypothesis.is_scored for one in (later[0], at_once[0])] == [False, True]
    within = 1e-4 if precision == "fp32" else 0.1  # in int8, the rounding depends on what is computed together
    assert len({one.finished for one in at_once}) == 2
    for name in ("score", "log_probability"):
        found = [[getattr(answer, name) for answer in answers] for answers in (later, at_once)]
        assert found[0] == pytest.approx(found[1], abs=within, rel=1e-6)


@pytest.mark.parametrize("beam", [1, 3])
def test_scores_are_those_of_torch_if_tokens_are_barred(translator: Any, beam: int) -> None:
    bundle = read_bundle(translator())
    unbarred = TranslationPredictor(bundle).predict(FRENCH[:9], beam=beam, n_best=beam)
    target = bundle.task.state.target
    target.barred_ids = [target.special.start, *{id for one in unbarred for id in one.ids[:1]}]
    ours = TranslationPredictor(bundle)
    for reads_scores in (False, True):
        theirs = TranslationPredictor(bundle, engine=TranslationEngine(bundle.task, bundle.model, "cpu", "fp32"))
        theirs.reads_scores = reads_scores
        answers = theirs.predict(FRENCH[:9], beam=beam, n_best=beam)
        assert not any(id in target.barred_ids for answer in answers for id in answer.ids)
        for answer in answers:
            found = [answer, *answer.alternatives]
            for one in found:
                expected = sum(ours.token_scores(one.source, one))
                assert one.log_probability == pytest.approx(expected, abs=1e-3)
            scores = [one.score for one in found]
            assert scores == sorted(scores, reverse=True)


def test_a_pickled_or_copied_answer_has_the_score_that_was_not_read_before(translator: Any) -> None:
    opened = saccade.open(translator(), engine="ctranslate2")
    one, other = opened.predict(FRENCH[:2])
    again, copied = pickle.loads(pickle.dumps(one)), copy.deepcopy(other)
    assert copied.hypothesis is other.hypothesis
    assert (again.record(), copied.record()) == (one.record(), other.record())
    assert f"score={one.score}, " in repr(one) == repr(again)
    assert again.hypothesis == one.hypothesis == again.hypothesis != other.hypothesis


def test_an_answer_that_is_shown_or_copied_computes_no_score(translator: Any) -> None:
    (answer,) = saccade.open(translator(), engine="ctranslate2").predict(FRENCH[:1])
    assert "score=" not in repr(answer) == repr(copy.deepcopy(answer))
    assert not answer.hypothesis.is_scored
    assert f"score={answer.score}, log_probability={answer.log_probability}, " in repr(answer)


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [(float("nan"), DivergedError, "computes NaN"), (-1e25, OptionError, "is as large as 1e\\+25, so CTranslate2's")],
)
def test_weights_with_which_it_would_be_wrong_are_refused(
    translator: Any, value: float, error: type[Exception], said: str
) -> None:
    bundle = read_bundle(translator())
    with torch.no_grad():
        bundle.model.get_parameter("decoder.1.feedforward.inner.weight")[2] = value
    with pytest.raises(error, match=said):
        TranslationEngine(bundle.task, bundle.model, "cpu", "fp32")


def test_weights_that_changed_since_they_were_copied_are_an_error(translator: Any) -> None:
    folder = translator()
    opened, other = (saccade.open(folder, engine="ctranslate2") for _ in range(2))
    other.reads_scores = True
    before, expected = opened.predict(FRENCH[:3]), other.predict(FRENCH[:3])
    with torch.no_grad():
        next(opened.model.parameters()).data.mul_(-3)
    with pytest.raises(StaleTraceError, match="The model has changed since CTranslate2 copied it"):
        opened.predict(FRENCH[:3])
    assert len(opened.predict(FRENCH[:3], sample=True)) == 3  # torch samples
    assert [one.score for one in before] == pytest.approx([one.score for one in expected], abs=1e-4)
    again = pickle.loads(pickle.dumps(opened))  # its engine copies the weights of today
    ours = [one.text for one in TranslationPredictor(opened.bundle).predict(FRENCH[:3])]
    assert [one.text for one in again.predict(FRENCH[:3])] == ours != [one.text for one in expected]


def test_an_engine_knows_that_weights_changed_before_a_predictor_used_it(translator: Any) -> None:
    bundle = read_bundle(translator())
    engine = TranslationEngine(bundle.task, bundle.model, "cpu", "fp32")
    with torch.no_grad():
        next(bundle.model.parameters())[3] += 1
    with pytest.raises(StaleTraceError, match="The model has changed since CTranslate2 copied it"):
        TranslationPredictor(bundle, engine=engine).predict(FRENCH[:3])


def test_many_texts_are_answered_in_their_order(translator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = saccade.open(translator(), engine="ctranslate2")
    texts = [*FRENCH[:7], "", *FRENCH[7:20]]
    alone = [opened.predict([text])[0].text for text in texts]
    monkeypatch.setattr(type(opened), "at_once", 2)  # two in a piece, and several pieces at once
    assert [one.text for one in opened.predict(texts)] == alone


def test_an_engine_can_be_sent_to_another_process(translator: Any) -> None:
    opened = saccade.open(translator(), engine="ctranslate2")
    again = pickle.loads(pickle.dumps(opened))
    assert [one.text for one in again.predict(FRENCH[:3])] == [one.text for one in opened.predict(FRENCH[:3])]


@pytest.mark.parametrize(
    ("field", "value"), [("score", "additive"), ("weights", "sparsemax"), ("position", "alibi"), ("final_norm", False)]
)
def test_what_it_cannot_express_is_refused_by_name(translator: Any, field: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"does not support networks with {field} = {value}"):
        saccade.open(translator(**{field: value}), engine="ctranslate2")


def test_int8_is_decoded_by_ctranslate2(translator: Any) -> None:
    assert all(answer.text for answer in saccade.open(translator(), precision="int8").predict(FRENCH[:3]))
    with pytest.raises(OptionError, match="int8 needs --engine ctranslate2"):
        saccade.open(translator(), precision="int8", engine="torch")


def test_it_is_chosen_for_a_long_file_if_its_first_answers_are_the_same(
    translator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, texts = saccade.open(translator()), (FRENCH * FEWEST)[:FEWEST]
    found, said = faster(opened, texts, {})
    assert found.engine_name == "CTranslate2"
    assert said == "Computed by CTranslate2, which gave the same answers as torch to the first 20 inputs."
    assert faster(opened, texts[:-1], {}) == (opened, "")
    assert faster(opened, texts, {"sample": True}) == (opened, "")
    search = TranslationEngine.search

    def wrong(self: Any, sources: Any, options: Any, reads_scores: bool) -> Any:
        found = search(self, sources, options, reads_scores)
        other = next(one for one in found if one[0].tokens != found[0][0].tokens)
        return [other, *found[1:]]

    monkeypatch.setattr(TranslationEngine, "search", wrong)  # its first answer is that of another text
    same, said = faster(opened, texts, {})
    assert same is opened
    assert said == "Computed by torch, because CTranslate2 answers 1 of the first 20 inputs differently."


def test_torch_answers_a_long_file_for_a_network_that_it_cannot_express(translator: Any) -> None:
    opened = saccade.open(translator(score="additive"))
    same, said = faster(opened, FRENCH * FEWEST, {})
    assert same is opened
    assert "does not support networks with score = additive" in said
