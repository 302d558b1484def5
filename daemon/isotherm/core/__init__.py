"""Values in, values out: no clock, no client, no logger. `now` is an argument."""
