//! Plans as a client sees them: which partitions and why, and what operators really did.

use lockstep_client::ParameterWriter;
use lockstep_testkit::host::TestHost;

const SCHEMA: &str = "CREATE TABLE p (k INTEGER NOT NULL, v INTEGER, PRIMARY KEY (k)); \
                      PARTITION TABLE p ON COLUMN k; \
                      CREATE TABLE r (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20));";

/// A text with its times left out: what stands between ` in ` and ` us`.
fn without_times(text: &str) -> String {
    let mut parts = text.split(" in ");
    let mut kept = parts.next().unwrap_or("").to_string();
    for part in parts {
        let (_, rest) = part.split_once(" us").expect("a time");
        kept.push_str(rest);
    }
    kept
}

#[test]
fn explain_names_partitions_and_analyze_counts() {
    let host = TestHost::start(3).expect("a host");
    let mut connection = host.connect().expect("a connection");
    connection.sql(SCHEMA).expect("a schema");
    for k in 0..30 {
        connection.sql(&format!("INSERT INTO p VALUES ({k}, {})", k % 3)).expect("a row");
    }
    connection.sql("INSERT INTO r VALUES (1, 'one')").expect("a row");
    let mut plan = |procedure: &str, text: &str| {
        let mut parameters = ParameterWriter::default();
        parameters.text(text);
        let answer = connection.call(procedure, &parameters).expect("an answer");
        let tables = match answer.tables() {
            Ok(tables) => tables,
            Err(error) => return error.to_string(),
        };
        assert_eq!(tables[0].names, ["EXECUTION_PLAN"]);
        let texts = tables.iter().map(|table| without_times(&table.rows[0][0].to_string()));
        texts.collect::<Vec<String>>().join("\n")
    };
    assert_eq!(
        plan("@Explain", "ANALYZE SELECT v FROM p WHERE k = 17"),
        "RETURN RESULTS TO STORED PROCEDURE\n \
          at partition 0, because P.K = 17\n \
          INDEX SCAN of \"P\" using \"VOLTDB_AUTOGEN_IDX_PK_P_K\" uniquely match (K = 17) \
         (about 1 row; gave 1 rows)"
    );
    let counted = "RETURN RESULTS TO STORED PROCEDURE
 PROJECT 2 columns (about 100 rows; gave 3 rows)
  Hash AGGREGATION by P.V ops: SUM(COUNT(*)) (about 100 rows; gave 3 rows)
   RECEIVE FROM ALL PARTITIONS of fragment 0 (about 300 rows; gave 9 rows)
FRAGMENT 0 at all partitions, because no value of P.K is known
 Hash AGGREGATION by P.V ops: COUNT(*) (about 100 rows; gave 3 + 3 + 3 rows)
  SEQUENTIAL SCAN of \"P\" (about 1000 rows; gave 9 + 7 + 14 rows)";
    assert_eq!(plan("@AdHoc", "EXPLAIN ANALYZE SELECT v, COUNT(*) FROM p GROUP BY v"), counted);
    assert_eq!(
        plan("@AdHoc", "EXPLAIN SELECT name FROM r"),
        "RETURN RESULTS TO STORED PROCEDURE\n \
          at any one partition, because only replicated tables are read\n \
          SEQUENTIAL SCAN of \"R\" (about 1000 rows)"
    );
    let refused = plan("@AdHoc", "EXPLAIN ANALYZE DELETE FROM p");
    assert!(refused.contains("is for queries only"), "{refused}");
}
