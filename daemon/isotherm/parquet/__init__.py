"""Data files as both programs write them: what the table asks for, and what a manifest says about them."""
