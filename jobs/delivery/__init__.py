"""Deliveries: what an HTTP or Kafka job says, and what its answers mean. No I/O."""
