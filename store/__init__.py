"""DuckDB: schema, ingest of journals, one query function per question, export."""
