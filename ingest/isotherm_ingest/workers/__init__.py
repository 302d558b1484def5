"""What runs in Spark's Python workers: messages in, data files of many tables out, in one job."""
