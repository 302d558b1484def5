"""What comes over Kafka: events, announcements, and what holds tables back."""
