"""The image autoencoder task: compress an image into one small vector, and reconstruct it."""
