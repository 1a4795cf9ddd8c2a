//! The tables of TATP and its procedures, by the way in which subscribers are found by number.

use crate::form::Form;

/// How a transaction that knows a subscriber's number finds the subscriber, who lives by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlternateKey {
    /// Each partition is asked, by a call of its own; then the one that has it is called.
    AskAll,
    /// The transaction itself runs at all partitions.
    UpdateAll,
    /// One read over all partitions; then the one that has it is called.
    ReadAll,
    /// A table from numbers to ids, partitioned by number, is asked; then the one that has it is
    /// called.
    Lookup,
    /// A global unique index leads the call to the subscriber.
    GlobalIndex,
}

impl AlternateKey {
    /// All, as they are named on a command line.
    pub const NAMES: [(&'static str, AlternateKey); 5] = [
        ("global-index", AlternateKey::GlobalIndex),
        ("lookup", AlternateKey::Lookup),
        ("read-all", AlternateKey::ReadAll),
        ("update-all", AlternateKey::UpdateAll),
        ("ask-all", AlternateKey::AskAll),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        AlternateKey::NAMES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

const TABLES: &str = "\
CREATE TABLE subscriber (
  s_id BIGINT NOT NULL, sub_nbr VARCHAR(15) NOT NULL,
  bit_1 TINYINT, bit_2 TINYINT, bit_3 TINYINT, bit_4 TINYINT, bit_5 TINYINT,
  bit_6 TINYINT, bit_7 TINYINT, bit_8 TINYINT, bit_9 TINYINT, bit_10 TINYINT,
  hex_1 TINYINT, hex_2 TINYINT, hex_3 TINYINT, hex_4 TINYINT, hex_5 TINYINT,
  hex_6 TINYINT, hex_7 TINYINT, hex_8 TINYINT, hex_9 TINYINT, hex_10 TINYINT,
  byte2_1 SMALLINT, byte2_2 SMALLINT, byte2_3 SMALLINT, byte2_4 SMALLINT, byte2_5 SMALLINT,
  byte2_6 SMALLINT, byte2_7 SMALLINT, byte2_8 SMALLINT, byte2_9 SMALLINT, byte2_10 SMALLINT,
  msc_location BIGINT, vlr_location BIGINT,
  PRIMARY KEY (s_id)
);
PARTITION TABLE subscriber ON COLUMN s_id;
CREATE TABLE access_info (
  s_id BIGINT NOT NULL, ai_type TINYINT NOT NULL, data1 SMALLINT, data2 SMALLINT,
  data3 VARCHAR(3), data4 VARCHAR(5),
  PRIMARY KEY (s_id, ai_type)
);
PARTITION TABLE access_info ON COLUMN s_id;
CREATE TABLE special_facility (
  s_id BIGINT NOT NULL, sf_type TINYINT NOT NULL, is_active TINYINT NOT NULL,
  error_cntrl SMALLINT, data_a SMALLINT, data_b VARCHAR(5),
  PRIMARY KEY (s_id, sf_type)
);
PARTITION TABLE special_facility ON COLUMN s_id;
CREATE TABLE call_forwarding (
  s_id BIGINT NOT NULL, sf_type TINYINT NOT NULL, start_time TINYINT NOT NULL,
  end_time TINYINT, numberx VARCHAR(15),
  PRIMARY KEY (s_id, sf_type, start_time)
);
PARTITION TABLE call_forwarding ON COLUMN s_id;
";

const PROCEDURES: &str = "\
CREATE PROCEDURE GetSubscriberData PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 0 AS
  SELECT s_id, sub_nbr, bit_1, bit_2, bit_3, bit_4, bit_5, bit_6, bit_7, bit_8, bit_9, bit_10,
    hex_1, hex_2, hex_3, hex_4, hex_5, hex_6, hex_7, hex_8, hex_9, hex_10,
    byte2_1, byte2_2, byte2_3, byte2_4, byte2_5, byte2_6, byte2_7, byte2_8, byte2_9, byte2_10,
    msc_location, vlr_location FROM subscriber WHERE s_id = ?;
CREATE PROCEDURE GetNewDestination PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 0 AS
  SELECT cf.numberx FROM special_facility sf, call_forwarding cf
  WHERE sf.s_id = ? AND sf.sf_type = ? AND sf.is_active = 1
  AND cf.s_id = sf.s_id AND cf.sf_type = sf.sf_type AND cf.start_time <= ? AND ? < cf.end_time;
CREATE PROCEDURE GetAccessData PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 0 AS
  SELECT data1, data2, data3, data4 FROM access_info WHERE s_id = ? AND ai_type = ?;
";

const UPDATE_NATIVE: &str = "\
CREATE PROCEDURE PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 0
  FROM NATIVE UpdateSubscriberData;
";

/// Without the facility neither row is changed.
const UPDATE_SQL: &str = "\
CREATE PROCEDURE UpdateSubscriberData
  PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 1 AS BEGIN
  UPDATE subscriber SET bit_1 = ? WHERE s_id = ? AND EXISTS
    (SELECT 1 FROM special_facility f WHERE f.s_id = ? AND f.sf_type = ?);
  UPDATE special_facility SET data_a = ? WHERE s_id = ? AND sf_type = ?;
END;
";

/// Where the subscriber has been found by another call.
const BY_ID: &str = "\
CREATE PROCEDURE UpdateLocation PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 1 AS
  UPDATE subscriber SET vlr_location = ? WHERE s_id = ?;
CREATE PROCEDURE DeleteCallForwarding PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 0 AS
  DELETE FROM call_forwarding WHERE s_id = ? AND sf_type = ? AND start_time = ?;
";

const INSERT_NATIVE: &str = "\
CREATE PROCEDURE PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 0
  FROM NATIVE InsertCallForwarding;
";

/// Of a subscriber without the facility there is no row to be inserted.
const INSERT_SQL: &str = "\
CREATE PROCEDURE InsertCallForwarding
  PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 3 AS
  INSERT INTO call_forwarding (s_id, sf_type, start_time, end_time, numberx)
  SELECT s_id, sf_type, CAST(? AS TINYINT), CAST(? AS TINYINT), CAST(? AS VARCHAR)
  FROM special_facility WHERE s_id = ? AND sf_type = ?;
";

const LOCAL_INDEX: &str = "CREATE INDEX sub_nbr_local ON subscriber (sub_nbr);";

const ASK: &str = "\
CREATE PROCEDURE PARTITION ON TABLE subscriber COLUMN s_id PARAMETER 0
  FROM NATIVE SubscriberAtPartition;
";

const ASK_SQL: &str = "\
CREATE PROCEDURE SubscriberAtPartition DIRECTED AS
  SELECT s_id FROM subscriber WHERE sub_nbr = ?;
";

const READ: &str = "\
CREATE PROCEDURE FindSubscriber AS SELECT s_id FROM subscriber WHERE sub_nbr = ?;
";

const LOOKUP_TABLE: &str = "\
CREATE TABLE subscriber_lookup (
  sub_nbr VARCHAR(15) NOT NULL, s_id BIGINT NOT NULL, PRIMARY KEY (sub_nbr)
);
PARTITION TABLE subscriber_lookup ON COLUMN sub_nbr;
";

const LOOKUP: &str = "\
CREATE PROCEDURE FindSubscriber
  PARTITION ON TABLE subscriber_lookup COLUMN sub_nbr PARAMETER 0 AS
  SELECT s_id FROM subscriber_lookup WHERE sub_nbr = ?;
";

/// Over all partitions, and led by the index; `$ROUTE` says which, with the place of the number.
const BY_NUMBER: &str = "\
CREATE PROCEDURE UpdateLocationByNumber $ROUTE1 AS
  UPDATE subscriber SET vlr_location = ? WHERE sub_nbr = ?;
";

const BY_NUMBER_NATIVE: &str = "\
CREATE PROCEDURE $ROUTE0 FROM NATIVE InsertCallForwardingByNumber;
CREATE PROCEDURE $ROUTE0 FROM NATIVE DeleteCallForwardingByNumber;
";

const BY_NUMBER_SQL: &str = "\
CREATE PROCEDURE InsertCallForwardingByNumber $ROUTE3 AS
  INSERT INTO call_forwarding (s_id, sf_type, start_time, end_time, numberx)
  SELECT f.s_id, f.sf_type, CAST(? AS TINYINT), CAST(? AS TINYINT), CAST(? AS VARCHAR)
  FROM subscriber s, special_facility f
  WHERE s.sub_nbr = ? AND f.s_id = s.s_id AND f.sf_type = ?;
CREATE PROCEDURE DeleteCallForwardingByNumber $ROUTE0 AS
  DELETE FROM call_forwarding
  WHERE s_id = (SELECT s_id FROM subscriber WHERE sub_nbr = ?) AND sf_type = ? AND start_time = ?;
";

const GLOBAL_INDEX: &str = "CREATE GLOBAL UNIQUE INDEX sub_nbr_idx ON subscriber (sub_nbr);";

/// All procedures of all modes.
const NAMES: [&str; 12] = [
    "GetSubscriberData",
    "GetNewDestination",
    "GetAccessData",
    "UpdateSubscriberData",
    "UpdateLocation",
    "InsertCallForwarding",
    "DeleteCallForwarding",
    "SubscriberAtPartition",
    "FindSubscriber",
    "UpdateLocationByNumber",
    "InsertCallForwardingByNumber",
    "DeleteCallForwardingByNumber",
];

/// The texts that make tables and indexes.
pub fn tables(mode: AlternateKey) -> Vec<String> {
    let own = match mode {
        AlternateKey::AskAll | AlternateKey::ReadAll | AlternateKey::UpdateAll => LOCAL_INDEX,
        AlternateKey::Lookup => LOOKUP_TABLE,
        AlternateKey::GlobalIndex => GLOBAL_INDEX,
    };
    vec![TABLES.to_string(), own.to_string()]
}

/// The texts that make procedures in the place of those of another form. Those that decide
/// something are native, classes, or statements whose conditions decide; the others are statements.
pub fn procedures(mode: AlternateKey, form: &Form) -> Vec<String> {
    let of = |native: &'static str, sql: &'static str| match form {
        Form::Native | Form::Java(_) => native,
        Form::Sql => sql,
    };
    let by_id = [BY_ID, of(INSERT_NATIVE, INSERT_SQL)].concat();
    let by_number = |led: bool| {
        let text = [BY_NUMBER, of(BY_NUMBER_NATIVE, BY_NUMBER_SQL)].concat();
        (0..4).fold(text, |text, place| text.replace(&format!("$ROUTE{place}"), &route(led, place)))
    };
    let own = match mode {
        AlternateKey::AskAll => by_id + of(ASK, ASK_SQL),
        AlternateKey::ReadAll => by_id + READ,
        AlternateKey::Lookup => by_id + LOOKUP,
        AlternateKey::UpdateAll => by_number(false),
        AlternateKey::GlobalIndex => by_number(true),
    };
    let dropped = NAMES.map(|name| format!("DROP PROCEDURE {name} IF EXISTS;\n")).concat();
    let update = of(UPDATE_NATIVE, UPDATE_SQL);
    let made = [PROCEDURES, update, &own].map(|text| match form {
        Form::Java(_) => Form::in_package(text, "tatp"),
        Form::Native | Form::Sql => text.to_string(),
    });
    [vec![dropped], made.to_vec()].concat()
}

/// What leads a call to its subscriber: the index, with the place of the number, or nothing.
fn route(led: bool, place: u32) -> String {
    match led {
        false => String::new(),
        true => format!(
            "PARTITION ON TABLE subscriber COLUMN s_id VIA GLOBAL INDEX sub_nbr_idx \
             PARAMETER {place}"
        ),
    }
}
