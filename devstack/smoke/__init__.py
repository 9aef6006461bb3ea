"""The smoke test: the whole pipeline against a running stack."""
