"""The frameworks' own advantages and gradients against ours, on random ragged batches."""
