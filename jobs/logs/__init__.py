"""The log: which events there are, what each line carries, and how it is written down."""
