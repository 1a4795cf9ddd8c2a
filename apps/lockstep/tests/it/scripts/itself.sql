file tests/it/scripts/itself.sql
