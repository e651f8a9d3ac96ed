"""From what waves execute on an AMD GPU to counts that models take: pipes, waits, traffic."""
