"""The same outputs as transformers' beam search with early stopping, whose rules ours are."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from saccade.decoding import beam_search

START, END = 1, 0


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=37,
        n_positions=40,
        n_embd=24,
        n_layer=2,
        n_head=3,
        bos_token_id=START,
        eos_token_id=END,
        pad_token_id=END,
        tie_word_embeddings=False,  # else the model repeats its last word and never ends
        initializer_range=0.2,  # large enough for outputs of many lengths
    )
    return GPT2LMHeadModel(config).eval()


class Rereading:
    """Steps by reading the whole prefix again."""

    def __init__(self, model):
        self.model = model

    def step(self, tokens, state):
        prefix = torch.cat((state, tokens.unsqueeze(1)), dim=1)
        return self.model(prefix).logits[:, -1], prefix

    def reorder(self, state, index):
        return state[index.flatten()]


@pytest.mark.parametrize(("beam", "length_penalty"), [(2, 0.0), (5, 0.0), (5, 1.0), (4, 2.0), (3, -0.5)])
def test_beam_search_gives_what_transformers_gives(model, beam, length_penalty):
    prompt = torch.tensor([[START, word] for word in range(2, 31)])
    theirs = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_length=36,
        num_beams=beam,
        num_return_sequences=2,
        do_sample=False,
        early_stopping=True,
        length_penalty=length_penalty,
        output_scores=True,
        return_dict_in_generate=True,
    )
    ours = beam_search(
        Rereading(model),
        prompt[:, :0],
        batch_size=len(prompt),
        start_token=prompt,
        end_token=END,
        max_length=34,
        beam=beam,
        n_best=2,
        length_penalty=length_penalty,
    )
    rows = theirs.sequences[:, 2:].tolist()
    expected = [row[: row.index(END)] if END in row else None for row in rows]
    found = [h for hypotheses in ours for h in hypotheses]
    # Where something is cut off, theirs ranks it among the finished, so those sentences are left out.
    compared = [i for i in range(len(rows)) if None not in expected[i // 2 * 2 : i // 2 * 2 + 2]]
    assert len(compared) > len(rows) / 2
    assert [found[i].tokens for i in compared] == [expected[i] for i in compared]
    scores = theirs.sequences_scores.tolist()
    assert [found[i].score for i in compared] == pytest.approx([scores[i] for i in compared], abs=1e-4)
