"""The jobs in MongoDB: the only importer of pymongo. One object, small stores, one guarded write
per move.
"""

from jobs.repository.connection import Repository

__all__ = ["Repository"]
