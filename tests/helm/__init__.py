"""Tests of what is shipped: the chart and the image files."""
