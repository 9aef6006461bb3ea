"""Jobs that are delivered instead of handled: HTTP requests and Kafka messages, asynchronously."""
