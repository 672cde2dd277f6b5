"""The store of facts: per-response sums over tokens, kept so that the pass over tokens runs once per file."""

from audit.facts.store.fingerprint import counts_tokens
from audit.facts.store.job import Account, Engine, facts, request, stored
from audit.facts.store.watcher import Watcher

__all__ = ["Account", "Engine", "Watcher", "counts_tokens", "facts", "request", "stored"]
