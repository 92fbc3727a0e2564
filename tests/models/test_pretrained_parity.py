"""GPT-2, BERT, Marian, ViT and a Llama-like model are values of our configuration: same weights, same logits.

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
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    ViTConfig,
    ViTForImageClassification,
)

import saccade
from saccade.decoding import beam_search
from saccade.models import (
    DecoderOnly,
    EncoderDecoder,
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


# --- Marian -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def marian():
    width, layers, heads, start = 14, 2, 7, 30
    theirs = random_weights(
        MarianMTModel(
            MarianConfig(
                vocab_size=VOCABULARY,
                d_model=width,
                encoder_layers=layers,
                decoder_layers=layers,
                encoder_attention_heads=heads,
                decoder_attention_heads=heads,
                encoder_ffn_dim=HIDDEN,
                decoder_ffn_dim=HIDDEN,
                max_position_embeddings=MAX_LENGTH,
                activation_function="swish",
                scale_embedding=True,
                eos_token_id=0,
                pad_token_id=start,
                decoder_start_token_id=start,
                forced_eos_token_id=None,
                attn_implementation="eager",
            )
        )
    )
    theirs.final_logits_bias.normal_()
    ours = EncoderDecoder(
        TransformerConfig(
            width=width,
            num_heads=heads,
            encoder_layers=layers,
            decoder_layers=layers,
            feedforward_width=HIDDEN,
            activation="silu",
            norm_first=False,
            position="sinusoidal",
            sines_first=True,
            scaled_embedding=True,
            tied_embeddings=True,
            output_bias=True,
        ),
        VOCABULARY,
        VOCABULARY,
    ).eval()
    copy = Copy(theirs, ours)
    copy.tensor(ours.source.words.weight, "model.shared.weight")
    copy.set(ours.output.words.bias, theirs.final_logits_bias[0])
    for part, blocks in (("encoder", ours.encoder), ("decoder", ours.decoder)):
        for number, block in enumerate(blocks):
            prefix = f"model.{part}.layers.{number}"
            copy.projections(block.self, f"{prefix}.self_attn", "out_proj")
            copy.layer(block.self_norm, f"{prefix}.self_attn_layer_norm")
            if block.cross is not None:
                copy.projections(block.cross, f"{prefix}.encoder_attn", "out_proj")
                copy.layer(block.cross_norm, f"{prefix}.encoder_attn_layer_norm")
            copy.layer(block.feedforward.inner, f"{prefix}.fc1")
            copy.layer(block.feedforward.outer, f"{prefix}.fc2")
            copy.layer(block.feedforward_norm, f"{prefix}.final_layer_norm")
    copy.done()
    return ours, theirs


@torch.no_grad()
def test_marian_gives_the_same_logits_and_attention_on_a_padded_batch(marian):
    ours, theirs = marian
    source, lengths = torch.randint(VOCABULARY, (3, 11)), torch.tensor([5, 11, 8])
    target = torch.randint(VOCABULARY, (3, 13))
    real = torch.arange(11) < lengths[:, None]
    with saccade.watch(ours) as seen:
        logits = ours(source, lengths, target)
    expected = theirs(source, attention_mask=real.long(), decoder_input_ids=target, output_attentions=True)
    torch.testing.assert_close(logits, expected.logits, **TOLERANCE)
    compare_attention(seen, names("encoder", "self", 2), expected.encoder_attentions)
    compare_attention(seen, names("decoder", "self", 2), expected.decoder_attentions)
    compare_attention(seen, names("decoder", "cross", 2), expected.cross_attentions)


@torch.no_grad()
def test_marian_writes_the_same(marian):
    ours, theirs = marian
    source, lengths = torch.randint(1, VOCABULARY, (9, 11)), torch.arange(3, 12)
    real = torch.arange(11) < lengths[:, None]
    expected = theirs.generate(source, attention_mask=real.long(), max_length=MAX_LENGTH, do_sample=False, num_beams=1)
    found = beam_search(
        ours,
        ours.start(source, lengths, MAX_LENGTH),
        batch_size=len(source),
        start_token=30,
        end_token=0,
        max_length=MAX_LENGTH - 1,
        beam=1,
    )
    assert_same_tokens(found, expected[:, 1:])


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


# --- Llama ------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_a_llama_like_model_gives_the_same_logits_and_attention():
    """Grouped heads wider than width / heads, rotary positions, RMS norm, gated SiLU, no biases, nothing tied."""
    width, layers, heads, key_heads, head_width, base = 30, 2, 6, 2, 4, 500.0
    theirs = random_weights(
        LlamaForCausalLM(
            LlamaConfig(
                vocab_size=VOCABULARY,
                hidden_size=width,
                intermediate_size=HIDDEN,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                num_key_value_heads=key_heads,
                head_dim=head_width,
                rms_norm_eps=1e-6,
                rope_parameters={"rope_type": "default", "rope_theta": base},
                tie_word_embeddings=False,
                bos_token_id=1,
                eos_token_id=0,
                attn_implementation="eager",
            )
        ),
        strength=0.2,  # its angles are float32, so with larger weights rounding alone exceeds 1e-5
    )
    ours = DecoderOnly(
        TransformerConfig(
            width=width,
            num_heads=heads,
            num_key_heads=key_heads,
            head_width=head_width,
            decoder_layers=layers,
            feedforward_width=HIDDEN,
            activation="silu",
            gated=True,
            bias=False,
            norm="rms",
            norm_epsilon=1e-6,
            position="rotary",
            rotary_base=base,
            tied_output=False,
        ),
        VOCABULARY,
    ).eval()
    copy = Copy(theirs, ours)
    copy.tensor(ours.input.words.weight, "model.embed_tokens.weight")
    for number, block in enumerate(ours.decoder):
        prefix = f"model.layers.{number}"
        copy.layer(block.self_norm, f"{prefix}.input_layernorm")
        copy.projections(block.self, f"{prefix}.self_attn", "o_proj")
        copy.layer(block.feedforward_norm, f"{prefix}.post_attention_layernorm")
        gate, up = (copy.state[f"{prefix}.mlp.{name}_proj.weight"] for name in ("gate", "up"))
        copy.set(block.feedforward.inner.weight, torch.cat([gate, up]))
        copy.layer(block.feedforward.outer, f"{prefix}.mlp.down_proj")
    copy.layer(ours.decoder_norm, "model.norm")
    copy.tensor(ours.output.words.weight, "lm_head.weight")
    copy.done()

    tokens = torch.randint(VOCABULARY, (3, 19))
    with saccade.watch(ours) as seen:
        logits = ours(tokens)
    expected = theirs(tokens, output_attentions=True)
    torch.testing.assert_close(logits, expected.logits, **TOLERANCE)
    compare_attention(seen, names("decoder", "self", layers), expected.attentions)
