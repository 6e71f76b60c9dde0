"""The stored data: exported files, curated Parquet files, and the manifests that say which of them are valid."""
