"""The masked language model task: predict hidden words from the words around them."""
