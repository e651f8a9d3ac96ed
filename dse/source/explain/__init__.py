"""Explanations of one configuration: where it spends what, as tables of plain rows or a graph."""
