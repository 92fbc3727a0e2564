"""Record a model's attention while it runs (``watch``), read the record (``trace``), or change attention (``edit``)."""
