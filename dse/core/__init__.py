"""Work that is not about GPUs: files, processes, caches, precision, progress, and spaces of parameters."""
