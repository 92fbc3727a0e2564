"""The captions task: describe an image in words."""
