"""Everything independent of GPUs: files, processes, caches, precision, progress, and parameter spaces."""
