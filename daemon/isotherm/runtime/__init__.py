"""What every process of ours needs, whatever it does: a clock, logs, and configuration."""
