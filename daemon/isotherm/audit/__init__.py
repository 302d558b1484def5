"""Whether the promises hold, judged from history: the table's own, the ledger's, and the control topic's.

Its independence is its worth. It knows the contract, and nothing of the code that it judges.
"""
