"""System procedures: health, catalog, plans."""

import json

from harness import (Case, GRACEFUL_FAILURE, INTEGER, NULL, STRING, UNEXPECTED_FAILURE)

OVERVIEW_KEYS = ("IPADDRESS", "HOSTNAME", "CLIENTINTERFACE", "CLIENTPORT", "ADMININTERFACE",
                 "ADMINPORT", "BUILDSTRING", "VERSION", "CLUSTERSTATE", "CLUSTERSAFETY",
                 "INITIALIZED", "REPLICATIONROLE", "STARTTIME", "UPTIME", "FULLCLUSTERSIZE",
                 "CLUSTERID", "CPUCORES", "MEMORY")
TABLES = ("TABLE_CAT:STRING TABLE_SCHEM:STRING TABLE_NAME:STRING TABLE_TYPE:STRING REMARKS:STRING"
          " TYPE_CAT:STRING TYPE_SCHEM:STRING TYPE_NAME:STRING SELF_REFERENCING_COL_NAME:STRING"
          " REF_GENERATION:STRING")
COLUMNS = ("TABLE_CAT:STRING TABLE_SCHEM:STRING TABLE_NAME:STRING COLUMN_NAME:STRING"
           " DATA_TYPE:INTEGER TYPE_NAME:STRING COLUMN_SIZE:INTEGER BUFFER_LENGTH:INTEGER"
           " DECIMAL_DIGITS:INTEGER NUM_PREC_RADIX:INTEGER NULLABLE:INTEGER REMARKS:STRING"
           " COLUMN_DEF:STRING SQL_DATA_TYPE:INTEGER SQL_DATETIME_SUB:INTEGER"
           " CHAR_OCTET_LENGTH:INTEGER ORDINAL_POSITION:INTEGER IS_NULLABLE:STRING"
           " SCOPE_CATALOG:STRING SCOPE_SCHEMA:STRING SCOPE_TABLE:STRING SOURCE_DATA_TYPE:SMALLINT"
           " IS_AUTOINCREMENT:STRING")
INDEXINFO = ("TABLE_CAT:STRING TABLE_SCHEM:STRING TABLE_NAME:STRING NON_UNIQUE:TINYINT"
             " INDEX_QUALIFIER:STRING INDEX_NAME:STRING TYPE:SMALLINT ORDINAL_POSITION:SMALLINT"
             " COLUMN_NAME:STRING ASC_OR_DESC:STRING CARDINALITY:INTEGER PAGES:INTEGER"
             " FILTER_CONDITION:STRING")
PRIMARYKEYS = ("TABLE_CAT:STRING TABLE_SCHEM:STRING TABLE_NAME:STRING COLUMN_NAME:STRING"
               " KEY_SEQ:SMALLINT PK_NAME:STRING")
PROCEDURES = ("PROCEDURE_CAT:STRING PROCEDURE_SCHEM:STRING PROCEDURE_NAME:STRING RESERVED1:STRING"
              " RESERVED2:STRING RESERVED3:STRING REMARKS:STRING PROCEDURE_TYPE:SMALLINT"
              " SPECIFIC_NAME:STRING")
PROCEDURECOLUMNS = ("PROCEDURE_CAT:STRING PROCEDURE_SCHEM:STRING PROCEDURE_NAME:STRING"
                    " COLUMN_NAME:STRING COLUMN_TYPE:SMALLINT DATA_TYPE:INTEGER TYPE_NAME:STRING"
                    " PRECISION:INTEGER LENGTH:INTEGER SCALE:SMALLINT RADIX:SMALLINT"
                    " NULLABLE:SMALLINT REMARKS:STRING COLUMN_DEF:STRING SQL_DATA_TYPE:INTEGER"
                    " SQL_DATETIME_SUB:INTEGER CHAR_OCTET_LENGTH:INTEGER ORDINAL_POSITION:INTEGER"
                    " IS_NULLABLE:STRING SPECIFIC_NAME:STRING")
TYPEINFO = ("TYPE_NAME:STRING DATA_TYPE:INTEGER PRECISION:INTEGER LITERAL_PREFIX:STRING"
            " LITERAL_SUFFIX:STRING CREATE_PARAMS:STRING NULLABLE:SMALLINT CASE_SENSITIVE:TINYINT"
            " SEARCHABLE:SMALLINT UNSIGNED_ATTRIBUTE:TINYINT FIXED_PREC_SCALE:TINYINT"
            " AUTO_INCREMENT:TINYINT LOCAL_TYPE_NAME:STRING MINIMUM_SCALE:SMALLINT"
            " MAXIMUM_SCALE:SMALLINT SQL_DATA_TYPE:INTEGER SQL_DATETIME_SUB:INTEGER"
            " NUM_PREC_RADIX:INTEGER")
FUNCTIONS = "FUNCTION_TYPE:STRING FUNCTION_NAME:STRING CLASS_NAME:STRING METHOD_NAME:STRING"
CLASSES = "CLASS_NAME:STRING VOLT_PROCEDURE:TINYINT ACTIVE_PROC:TINYINT"


class Health(Case):
    """@Ping and @SystemInformation."""

    def test_ping(self):
        response = self.caller.call("@Ping")
        self.assertEqual(response.statusString, "SUCCESS")
        self.assert_columns(response.tables[0], "STATUS:BIGINT")
        self.assertEqual(response.tables[0].tuples, [[0]])
        self.assertEqual(self.call("@Ping", [INTEGER], [1])[0].tuples, [[0]])

    def test_overview(self):
        for values in ([], ["OVERVIEW"], ["overview"]):
            table = self.call("@SystemInformation", [STRING] * len(values), values)[0]
            self.assert_columns(table, "HOST_ID:INTEGER KEY:STRING VALUE:STRING")
            found = {row[1]: row[2] for row in table.tuples}
            for key in OVERVIEW_KEYS:
                self.assertIn(key, found)
            self.assertEqual(found["CLIENTPORT"], str(self.server.port))
            self.assertEqual(found["ADMINPORT"], str(self.server.admin_port))
            self.assertEqual(found["CLUSTERSTATE"], "RUNNING")
            self.assertEqual(found["FULLCLUSTERSIZE"], "1")
            self.assertEqual({row[0] for row in table.tuples}, {0})

    def test_deployment(self):
        table = self.call("@SystemInformation", [STRING], ["DEPLOYMENT"])[0]
        self.assert_columns(table, "PROPERTY:STRING VALUE:STRING")
        found = dict(map(tuple, table.tuples))
        self.assertEqual(found["sitesperhost"], str(self.server.sites))
        self.assertEqual(found["kfactor"], "0")

    def test_bad_selectors(self):
        self.refused(GRACEFUL_FAILURE, "^Invalid @SystemInformation selector:? NOSUCH",
                     "@SystemInformation", [STRING], ["NOSUCH"])
        self.refused(GRACEFUL_FAILURE, "(?i)selector", "@SystemInformation", [NULL], [None])


class Catalog(Case):
    """@SystemCatalog, as drivers and tools read it."""

    schema = (
        "CREATE TABLE cat_part (k BIGINT NOT NULL, s VARCHAR(12) DEFAULT 'x', d DECIMAL,"
        " PRIMARY KEY (k))",
        "PARTITION TABLE cat_part ON COLUMN k",
        "CREATE TABLE cat_repl (a INTEGER NOT NULL, b TINYINT, CONSTRAINT cat_pk PRIMARY KEY (a))",
        "CREATE INDEX cat_by_s ON cat_part (s, d)",
        "CREATE VIEW cat_view (s, n) AS SELECT s, COUNT(*) FROM cat_part GROUP BY s",
        "CREATE PROCEDURE CatGet PARTITION ON TABLE cat_part COLUMN k AS"
        " SELECT s FROM cat_part WHERE k = ?",
        "CREATE PROCEDURE CatAll AS SELECT COUNT(*) FROM cat_part WHERE s = ?",
        "CREATE PROCEDURE CatPut AS INSERT INTO cat_repl VALUES (?, ?)",
    )

    def catalog(self, selector, columns):
        """The rows of a selector as dictionaries; columns are compared as well."""
        table = self.call("@SystemCatalog", [STRING], [selector])[0]
        self.assert_columns(table, columns)
        names = [column.name for column in table.columns]
        return [dict(zip(names, row)) for row in table.tuples]

    def test_tables(self):
        rows = {row["TABLE_NAME"]: row for row in self.catalog("TABLES", TABLES)}
        self.assertEqual(rows["CAT_PART"]["TABLE_TYPE"], "TABLE")
        self.assertEqual(rows["CAT_VIEW"]["TABLE_TYPE"], "VIEW")
        self.assertEqual(json.loads(rows["CAT_PART"]["REMARKS"])["partitionColumn"], "K")
        self.assertEqual(json.loads(rows["CAT_VIEW"]["REMARKS"])["sourceTable"], "CAT_PART")
        self.assertIsNone(rows["CAT_REPL"]["REMARKS"])

    def test_columns(self):
        rows = [row for row in self.catalog("COLUMNS", COLUMNS) if row["TABLE_NAME"] == "CAT_PART"]
        rows.sort(key=lambda row: row["ORDINAL_POSITION"])
        self.assertEqual([row["COLUMN_NAME"] for row in rows], ["K", "S", "D"])
        self.assertEqual([row["TYPE_NAME"] for row in rows], ["BIGINT", "VARCHAR", "DECIMAL"])
        self.assertEqual([row["DATA_TYPE"] for row in rows], [-5, 12, 3])
        self.assertEqual([row["IS_NULLABLE"] for row in rows], ["NO", "YES", "YES"])
        self.assertEqual([row["REMARKS"] for row in rows], ["PARTITION_COLUMN", None, None])
        self.assertEqual(rows[1]["COLUMN_SIZE"], 12)

    def test_indexes(self):
        rows = [row for row in self.catalog("INDEXINFO", INDEXINFO)
                if row["INDEX_NAME"] == "CAT_BY_S"]
        # VoltDB numbers the columns by name, not by their place in the index.
        self.assertEqual({row["COLUMN_NAME"] for row in rows}, {"S", "D"})
        self.assertEqual({row["ORDINAL_POSITION"] for row in rows}, {1, 2})
        self.assertEqual({row["NON_UNIQUE"] for row in rows}, {1})

    def test_primary_keys(self):
        rows = {row["TABLE_NAME"]: row for row in self.catalog("PRIMARYKEYS", PRIMARYKEYS)}
        self.assertEqual(rows["CAT_PART"]["COLUMN_NAME"], "K")
        self.assertEqual(rows["CAT_REPL"]["KEY_SEQ"], 1)

    def test_procedures(self):
        rows = {row["PROCEDURE_NAME"]: json.loads(row["REMARKS"])
                for row in self.catalog("PROCEDURES", PROCEDURES)}
        self.assertEqual((rows["CatGet"]["readOnly"], rows["CatGet"]["singlePartition"]),
                         (True, True))
        self.assertEqual(rows["CatGet"]["partitionParameter"], 0)
        self.assertEqual(rows["CatGet"]["partitionParameterType"], 6)
        self.assertEqual((rows["CatAll"]["readOnly"], rows["CatAll"]["singlePartition"]),
                         (True, False))
        self.assertFalse(rows["CatPut"]["readOnly"])
        self.assertTrue(rows["CAT_PART.insert"]["singlePartition"])
        self.assertFalse(rows["CAT_REPL.insert"]["singlePartition"])
        self.assertFalse([name for name in rows if name.startswith("@")])

    def test_procedure_columns(self):
        rows = [row for row in self.catalog("PROCEDURECOLUMNS", PROCEDURECOLUMNS)
                if row["PROCEDURE_NAME"] == "CatGet"]
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0]["REMARKS"], "PARTITION_PARAMETER")
        self.assertEqual(rows[0]["TYPE_NAME"], "BIGINT")

    def test_other_selectors(self):
        names = [row["TYPE_NAME"] for row in self.catalog("TYPEINFO", TYPEINFO)]
        for name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DECIMAL", "TIMESTAMP"):
            self.assertIn(name, names)
        self.catalog("FUNCTIONS", FUNCTIONS)
        self.catalog("CLASSES", CLASSES)
        self.catalog("ROLES", "ROLE:STRING PERMISSIONS:STRING")
        self.catalog("tables", TABLES)

    def test_bad_selectors(self):
        self.refused(GRACEFUL_FAILURE, "Invalid @SystemCatalog selector: NOSUCH", "@SystemCatalog",
                     [STRING], ["NOSUCH"])
        self.refused(GRACEFUL_FAILURE, "Incorrect number of arguments|EXPECTS 1 PARAMS",
                     "@SystemCatalog")

    def test_explain(self):
        statements = ("SELECT * FROM cat_part WHERE k = 5", "INSERT INTO cat_repl VALUES (1, 2)",
                      "DELETE FROM cat_part", "SELECT s, COUNT(*) FROM cat_part GROUP BY s")
        for statement in statements:
            table = self.call("@Explain", [STRING], [statement])[0]
            self.assert_columns(table, "EXECUTION_PLAN:STRING")
            self.assertEqual(len(table.tuples), 1)
            self.assertTrue(table.tuples[0][0].strip(), statement)
        self.assertEqual(len(self.call("@Explain", [STRING], ["; ".join(statements)])), 4)
        self.refused(GRACEFUL_FAILURE, ".", "@Explain", [STRING], ["SELEC"])
        self.refused(GRACEFUL_FAILURE, "(?i)explain doesn't support DDL|not a query", "@Explain",
                     [STRING], ["CREATE TABLE explained (a INTEGER)"])

    def test_explain_procedures(self):
        for name in ("CatGet", "CatAll", "CAT_PART.insert"):
            table = self.call("@ExplainProc", [STRING], [name])[0]
            self.assert_columns(table, "STATEMENT_NAME:STRING SQL_STATEMENT:STRING"
                                       " EXECUTION_PLAN:STRING")
            self.assertEqual(len(table.tuples), 1)
            self.assertTrue(all(table.tuples[0]), name)
        response = self.caller.call("@ExplainProc", [STRING], ["NoSuch"])
        self.assertEqual(response.status, GRACEFUL_FAILURE, response.statusString)


class SystemNames(Case):
    """Names of system procedures are exact."""

    matrix = "one"

    def test_case_matters(self):
        self.refused(UNEXPECTED_FAILURE, "Procedure @adhoc was not found", "@adhoc", [STRING],
                     ["SELECT 1 FROM x"])
        self.refused(UNEXPECTED_FAILURE, "Procedure @PING was not found", "@PING")

    def test_ad_hoc_arguments(self):
        self.refused(GRACEFUL_FAILURE, "at least the query parameter", "@AdHoc")
        self.refused(GRACEFUL_FAILURE, "String type", "@AdHoc", [INTEGER], [1])
