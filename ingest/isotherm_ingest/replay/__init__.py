"""Dead letters whose cause was mended become rows of their table, where nothing newer is overwritten by them."""
