"""Other people's addresses: LibreTranslate and OpenAI."""
