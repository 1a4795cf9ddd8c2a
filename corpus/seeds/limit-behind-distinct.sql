-- Found by switching rules off: without push_distinct, LIMIT took rows before equal ones were one.
CREATE TABLE t (id INTEGER NOT NULL, k INTEGER NOT NULL, d INTEGER, PRIMARY KEY (k, id));
PARTITION TABLE t ON COLUMN k;
INSERT INTO t VALUES (5, -1, 1), (3, 3, NULL), (1, -2, NULL);
SELECT DISTINCT 1 AS c0, id AS c1 FROM t ORDER BY c0, c1 LIMIT 2;
--> 1 | 1
--> 1 | 3
