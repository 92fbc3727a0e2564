"""The text autoencoder task: compress a text into one small vector, and reconstruct it."""
