"""Records of Ansor, TVM's auto_scheduler until 0.18: logs read as traces of today's TVM."""

from pruner.records.ansor.programs import register
from pruner.records.ansor.read import read_ansor

__all__ = ["read_ansor", "register"]
