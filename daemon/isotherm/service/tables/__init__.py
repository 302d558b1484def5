"""Tables as the catalog has them: listed, followed, silent, failing, gone, or somewhere else."""
