"""GPT-2, BERT and ViT are values of our configuration: same weights, same logits; tests/pretrained has more families.

Each test builds a small model of `transformers` with random weights, says its shape in our fields, copies the
weights, and compares logits, attention weights, and, where the model writes, what it writes.
"""

import pytest
import torch
from copied_weights import TOLERANCE, Copy, compare_attention, names, random_weights
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    ViTConfig,
    ViTForImageClassification,
)

import saccade
from saccade.decoding import beam_search
from saccade.models import (
    DecoderOnly,
    EncoderOnly,
    TransformerConfig,
    VisionConfig,
    VisionTransformer,
)

VOCABULARY, MAX_LENGTH, HIDDEN = 31, 23, 29


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1)


# --- GPT-2 ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt2():
    width, layers, heads = 15, 2, 3
    theirs = random_weights(
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=VOCABULARY,
                n_positions=MAX_LENGTH,
                n_embd=width,
                n_layer=layers,
                n_head=heads,
                n_inner=HIDDEN,
                bos_token_id=1,
                eos_token_id=0,
                pad_token_id=0,
                attn_implementation="eager",
            )
        )
    )
    ours = DecoderOnly(
        TransformerConfig(
            width=width,
            num_heads=heads,
            decoder_layers=layers,
            feedforward_width=HIDDEN,
            activation="gelu_tanh",
            position="learned",
            max_length=MAX_LENGTH,
        ),
        VOCABULARY,
    ).eval()
    copy = Copy(theirs, ours)
    copy.tensor(ours.input.words.weight, "transformer.wte.weight")
    copy.tensor(ours.input.positions.weight, "transformer.wpe.weight")
    for number, block in enumerate(ours.decoder):
        prefix = f"transformer.h.{number}"
        copy.layer(block.self_norm, f"{prefix}.ln_1")
        copy.layer(block.self.query, f"{prefix}.attn.c_attn", slice(0, width), transposed=True)
        copy.layer(block.self.key_value, f"{prefix}.attn.c_attn", slice(width, None), transposed=True)
        copy.layer(block.self.output, f"{prefix}.attn.c_proj", transposed=True)
        copy.layer(block.feedforward_norm, f"{prefix}.ln_2")
        copy.layer(block.feedforward.inner, f"{prefix}.mlp.c_fc", transposed=True)
        copy.layer(block.feedforward.outer, f"{prefix}.mlp.c_proj", transposed=True)
    copy.layer(ours.decoder_norm, "transformer.ln_f")
    copy.done()
    return ours, theirs


@torch.no_grad()
def test_gpt2_gives_the_same_logits_and_attention(gpt2):
    ours, theirs = gpt2
    tokens = torch.randint(VOCABULARY, (2, MAX_LENGTH))
    with saccade.watch(ours) as seen:
        logits = ours(tokens)
    expected = theirs(tokens, output_attentions=True)
    torch.testing.assert_close(logits, expected.logits, **TOLERANCE)
    compare_attention(seen, names("decoder", "self", 2), expected.attentions)


@torch.no_grad()
def test_gpt2_writes_the_same(gpt2):
    ours, theirs = gpt2
    prompt = torch.randint(1, VOCABULARY, (11, 4))
    expected = theirs.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_length=MAX_LENGTH, do_sample=False, num_beams=1
    )
    found = beam_search(
        ours,
        ours.start(prompt[:, :-1], MAX_LENGTH),
        batch_size=len(prompt),
        start_token=prompt[:, -1],
        end_token=0,
        max_length=MAX_LENGTH - prompt.shape[1],
        beam=1,
    )
    assert_same_tokens(found, expected[:, prompt.shape[1] :])


def assert_same_tokens(found, expected):
    """Also that the outputs are not all one and the same, which any model could write."""
    rows = [row[: row.index(0)] if 0 in row else row for row in expected.tolist()]
    assert [hypotheses[0].tokens for hypotheses in found] == rows
    assert len({tuple(row) for row in rows}) > len(rows) / 3


# --- BERT -------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_bert_gives_the_same_logits_and_attention_on_a_padded_batch():
    width, layers, heads, types = 15, 2, 3, 2
    theirs = random_weights(
        BertForMaskedLM(
            BertConfig(
                vocab_size=VOCABULARY,
                hidden_size=width,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                intermediate_size=HIDDEN,
                max_position_embeddings=MAX_LENGTH,
                type_vocab_size=types,
                attn_implementation="eager",
            )
        )
    )
    ours = EncoderOnly(
        TransformerConfig(
            width=width,
            num_heads=heads,
            encoder_layers=layers,
            feedforward_width=HIDDEN,
            activation="gelu",
            norm_first=False,
            norm_epsilon=1e-12,
            position="learned",
            max_length=MAX_LENGTH,
            embedding_norm=True,
            token_types=types,
            output_bias=True,
            output_transform=True,
        ),
        VOCABULARY,
    ).eval()
    copy = Copy(theirs, ours)
    copy.tensor(ours.input.words.weight, "bert.embeddings.word_embeddings.weight")
    copy.tensor(ours.input.positions.weight, "bert.embeddings.position_embeddings.weight")
    copy.tensor(ours.input.types.weight, "bert.embeddings.token_type_embeddings.weight")
    copy.layer(ours.input.norm, "bert.embeddings.LayerNorm")
    for number, block in enumerate(ours.encoder):
        prefix = f"bert.encoder.layer.{number}"
        parts = [f"{prefix}.attention.self.{name}" for name in ("query", "key", "value")]
        copy.attention(block.self, *parts, f"{prefix}.attention.output.dense")
        copy.layer(block.self_norm, f"{prefix}.attention.output.LayerNorm")
        copy.layer(block.feedforward.inner, f"{prefix}.intermediate.dense")
        copy.layer(block.feedforward.outer, f"{prefix}.output.dense")
        copy.layer(block.feedforward_norm, f"{prefix}.output.LayerNorm")
    copy.layer(ours.output.transform, "cls.predictions.transform.dense")
    copy.layer(ours.output.transform_norm, "cls.predictions.transform.LayerNorm")
    copy.tensor(ours.output.words.bias, "cls.predictions.bias")
    copy.done()

    tokens, lengths = torch.randint(VOCABULARY, (3, 13)), torch.tensor([13, 5, 8])
    token_types = torch.randint(types, tokens.shape)
    real = torch.arange(13) < lengths[:, None]
    with saccade.watch(ours) as seen:
        logits = ours(tokens, lengths, token_types)
    expected = theirs(tokens, attention_mask=real.long(), token_type_ids=token_types, output_attentions=True)
    torch.testing.assert_close(logits[real], expected.logits[real], **TOLERANCE)
    compare_attention(seen, names("encoder", "self", layers), expected.attentions)


# --- ViT --------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_vit_gives_the_same_logits_and_attention():
    width, layers, heads, channels, classes, patch, size = 15, 2, 3, 4, 7, 5, (10, 15)
    theirs = random_weights(
        ViTForImageClassification(
            ViTConfig(
                hidden_size=width,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                intermediate_size=HIDDEN,
                image_size=size,
                patch_size=patch,
                num_channels=channels,
                num_labels=classes,
                attn_implementation="eager",
            )
        )
    )
    ours = VisionTransformer(
        VisionConfig(
            width=width,
            num_heads=heads,
            encoder_layers=layers,
            feedforward_width=HIDDEN,
            activation="gelu",
            norm_epsilon=1e-12,
            image_size=size,
            channels=channels,
            patch=patch,
        ),
        classes,
    ).eval()
    copy = Copy(theirs, ours)
    copy.tensor(ours.class_token, "vit.embeddings.cls_token")
    copy.tensor(ours.positions.weight, "vit.embeddings.position_embeddings", 0)
    copy.layer(ours.patches, "vit.embeddings.patch_embeddings.projection")
    for number, block in enumerate(ours.encoder):
        prefix = f"vit.layers.{number}"
        copy.layer(block.self_norm, f"{prefix}.layernorm_before")
        copy.projections(block.self, f"{prefix}.attention", "o_proj")
        copy.layer(block.feedforward_norm, f"{prefix}.layernorm_after")
        copy.layer(block.feedforward.inner, f"{prefix}.mlp.fc1")
        copy.layer(block.feedforward.outer, f"{prefix}.mlp.fc2")
    copy.layer(ours.encoder_norm, "vit.layernorm")
    copy.layer(ours.output, "classifier")
    copy.done()

    images = torch.randn(2, channels, *size)
    with saccade.watch(ours) as seen:
        logits = ours(images)
    expected = theirs(images, output_attentions=True)
    torch.testing.assert_close(logits, expected.logits, **TOLERANCE)
    compare_attention(seen, names("encoder", "self", layers), expected.attentions)
