"""What the rules that start from a pre-trained verifier have in common."""

from __future__ import annotations

from pruner.costmodel.pretrained import load_into
from pruner.costmodel.shipped import shipped
from pruner.costmodel.verifier import Verifier
from pruner.errors import ConfigError

# Epochs of an update, of boosted trees further trees: one number for all rules that train on, so that none
# of them is tuned more than another. On ten to sixty records of a task that a checkpoint had not seen, thirty
# to a hundred ranked the rest no better. The released code's default for fine-tuning is ten, too.
EPOCHS = 10


def pretrained(verifier: Verifier, checkpoint: str | None, rule: str) -> None:
    """Loads the checkpoint into the verifier; None = it is fitted already.

    Raises ConfigError as `load_into` does, and, naming the rule, for a verifier that then knows nothing.
    """
    if checkpoint is not None:
        load_into(verifier, checkpoint)
    if not verifier.fitted:
        found = "the verifier is unfitted" if checkpoint is None else f"{checkpoint} was never fitted"
        raise ConfigError(
            f"adapt={rule} needs adapt.checkpoint=NAME|PATH of a pre-trained verifier, and {found}; shipped "
            f"are {', '.join(shipped()) or 'none'}."
        )
