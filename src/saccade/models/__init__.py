"""The networks, one architecture per file. They take token ids, vectors and images as tensors, never text or files."""

from saccade.models.classifier import CLASSIFIERS, Classifier
from saccade.models.config import Config
from saccade.models.convolutional import (
    ConvolutionalConfig,
    ConvolutionalEncoder,
    ConvolutionalLanguageConfig,
    ConvolutionalLanguageModel,
    ConvolutionalSeq2Seq,
)
from saccade.models.inference import Precision, lower_precision
from saccade.models.recurrent import (
    Memory,
    RecurrentConfig,
    RecurrentLanguageConfig,
    RecurrentLanguageModel,
    RecurrentSeq2Seq,
)
from saccade.models.reinforce import ReinforcedLoss, hard_attention
from saccade.models.rwkv import RWKVConfig, RWKVLanguageModel
from saccade.models.tagger import TAGGERS, Tagger
from saccade.models.targets import LAST, Targets
from saccade.models.transformer import DecoderOnly, EncoderDecoder, EncoderOnly
from saccade.models.transformer_config import (
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
    TransformerConfig,
)
from saccade.models.transformer_layers import Block
from saccade.models.vit import VisionConfig, VisionTransformer
from saccade.models.window import WholeWindow, WindowEncoder

__all__ = [
    "CLASSIFIERS",
    "LAST",
    "TAGGERS",
    "Block",
    "Classifier",
    "Config",
    "ConvolutionalConfig",
    "ConvolutionalEncoder",
    "ConvolutionalLanguageConfig",
    "ConvolutionalLanguageModel",
    "ConvolutionalSeq2Seq",
    "DecoderOnly",
    "DecoderOnlyConfig",
    "EncoderDecoder",
    "EncoderDecoderConfig",
    "EncoderOnly",
    "EncoderOnlyConfig",
    "Memory",
    "Precision",
    "RWKVConfig",
    "RWKVLanguageModel",
    "RecurrentConfig",
    "RecurrentLanguageConfig",
    "RecurrentLanguageModel",
    "RecurrentSeq2Seq",
    "ReinforcedLoss",
    "Tagger",
    "Targets",
    "TransformerConfig",
    "VisionConfig",
    "VisionTransformer",
    "WholeWindow",
    "WindowEncoder",
    "hard_attention",
    "lower_precision",
]
