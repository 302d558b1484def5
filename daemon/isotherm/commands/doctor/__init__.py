"""`isotherm doctor`: whether everything is there that the daemon needs, before it runs or when something is wrong."""
