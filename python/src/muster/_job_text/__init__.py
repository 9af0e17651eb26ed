"""Reads jobs from YAML, JSON and protobuf's text format, as client/job_text does in C++: the same texts, the same errors.

A text becomes a tree (tree.py), whatever its notation, and the tree fills a message (fill.py).
"""
