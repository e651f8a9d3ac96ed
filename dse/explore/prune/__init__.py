"""The configurations worth measuring, with a stated risk of leaving out the fastest ones."""
