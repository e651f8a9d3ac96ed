"""The papers' numbers compared with ours: a module for each paper, a function for each table or example."""
