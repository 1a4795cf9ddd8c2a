-- Found against SQLite: a view with SUM(FLOAT) whose groups are spread over partitions could not be read.
CREATE TABLE t (id INTEGER NOT NULL, a DECIMAL, d FLOAT, PRIMARY KEY (id));
PARTITION TABLE t ON COLUMN id;
CREATE VIEW v AS SELECT a AS g, SUM(d) AS s FROM t GROUP BY a;
INSERT INTO t VALUES (-2, 1.25, -2.25E0), (1, 1.25, 1.0E0), (2, 1.25, NULL), (3, NULL, 0.5E0);
SELECT * FROM v;
--> 1.250000000000 | -1.25
--> NULL | 0.5
SELECT COUNT(*), SUM(s) FROM v;
--> 2 | -0.75
