"""Select the configurations worth measuring, with a stated risk of missing the fastest ones."""
