"""CUDA source to machine code by NVRTC, configuration by configuration, and the constants it computes."""
