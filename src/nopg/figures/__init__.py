"""Figures from records: nothing is measured here."""
