-- Found against SQLite: INSERT of one row whose partitioning value is computed when the statement
-- runs gave the coordinator a round without partitions, which ended the host.
CREATE TABLE t (id INTEGER NOT NULL, k VARCHAR(12) NOT NULL, PRIMARY KEY (k, id));
PARTITION TABLE t ON COLUMN id;
INSERT INTO t VALUES (BITOR(5, 7), 'a');
--> 1
INSERT INTO t VALUES (CASE 1 WHEN 4 THEN 5 WHEN -2 THEN 1 END, 'b');
--> refused
SELECT * FROM t;
--> 7 | a
