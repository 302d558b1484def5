"""The loop: events become state, state becomes verdicts, verdicts become work, and outcomes become events.

It knows the world by the Protocols in `ports`, decides with the core, and remembers in the store.
"""
