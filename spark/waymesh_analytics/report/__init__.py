"""The report: tables made from rollups, findings, and the files and pages that show them."""
