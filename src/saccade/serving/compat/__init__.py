"""The APIs of LibreTranslate and OpenAI, for clients that are written for those services."""
