"""A text or picture squeezed into one vector and rebuilt from it."""
