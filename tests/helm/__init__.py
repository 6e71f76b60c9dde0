"""Tests of the chart and the image files."""
