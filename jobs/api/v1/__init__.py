"""`/v1`: definitions, schedules and executions."""
