"""The image classification task: assign a class to an image."""
