"""Tables that are queries over others: what a change touches is computed anew, and committed with how far all of them were."""
