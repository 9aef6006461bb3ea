"""Kafka: the only importer of its client."""
