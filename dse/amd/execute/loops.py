"""Placeholder, replaced below."""
class LoopSkipper:
    def __init__(self, machine, code):
        self.examined = []
    def trip(self, *a): pass
