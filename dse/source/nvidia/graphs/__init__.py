"""Machine code as graphs: the dependences of one warp (IDG), and the work flow of the average one (WFG)."""
