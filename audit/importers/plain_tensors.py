"""Files of torch that hold only tensors, numbers, text, lists and dicts: all that is ever loaded."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

from audit.errors import BadLog


def load_plain(file: Path) -> Any:
    """Return what ``torch.save`` wrote, where that needs no class but torch's own tensors.

    Raises
    ------
    BadLog
        The file holds something else, which is not opened, or cannot be read.
    """
    import torch

    try:
        with warnings.catch_warnings():
            # It warns of pickles by other writers, which it then refuses.
            warnings.simplefilter("ignore")
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise BadLog(f"{file.name}: holds more than tensors and is not opened") from None
    except OSError as error:
        raise BadLog(f"{file.name}: {error.strerror or 'cannot be read'}") from None
    # A cut or hostile file fails inside torch's reader in any way that Python has.
    except Exception as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise BadLog(f"{file.name}: is no file of tensors ({why})") from None
