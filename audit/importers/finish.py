"""Why a response ended, in the words of the schema: ``stop``, ``length``, ``abort``, ``tool``."""

from __future__ import annotations

from typing import Any

_MEANS = {
    "stop": "stop eos eos_token end_of_text end_turn end_of_turn stop_sequence stop_token "
    "completed finished done",
    "length": "length max_tokens max_length max_new_tokens max_response_length max_seq_len max_context "
    "context_length truncated truncation overlong",
    "abort": "abort aborted cancelled canceled timeout error failed",
    "tool": "tool tool_call tool_calls tool_use function_call",
}
WORDS = {word: meaning for meaning, words in _MEANS.items() for word in words.split()}


def finish_reason(said: Any) -> str | None:
    """Return a reason in the words of the schema; one that has no such word stays as it is.

    A list of one is taken apart; null and empty text mean that nothing was logged.
    """
    while isinstance(said, (list, tuple)) and len(said) == 1:
        said = said[0]
    if said is None or said == "":
        return None
    if isinstance(said, dict):
        # SGLang's meta_info: {"type": "length", "length": 1024}
        said = said.get("type", said.get("reason"))
    if not isinstance(said, str):
        return None if said is None else str(said)
    plain = said.strip().rsplit(".", 1)[-1].lower().replace("-", "_").replace(" ", "_")
    return WORDS.get(plain, said)
