"""Learners in context beside each other: tasks, baselines, linear attention, metrics, curves of errors."""
