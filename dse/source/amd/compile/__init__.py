"""CUDA and HIP source to AMDGPU assembly by clang, configuration by configuration."""
