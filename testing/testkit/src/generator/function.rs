//! Scalar functions as templates, each in three dialects. A text is empty where the other database
//! has no such function or has another rule: `Known::OwnFunctions`, `Known::ExactDecimals`,
//! `Known::LastDayOfMonth`.

use super::Family::{self, Bytes, Decimal, Float, Integer, Text, Timestamp};

/// What stands at a place of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// Any value of a family.
    Of(Family),
    /// A number from 0 to 4.
    Small,
    /// 2, 3 or 5.
    Divisor,
    /// A number from -40 to 40.
    Days,
}

/// A function or operator.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) gives: Family,
    pub(super) takes: &'static [Argument],
    /// In this database, in SQLite, in PostgreSQL; empty where there is none.
    pub(super) texts: [&'static str; 3],
}

const fn function(
    gives: Family,
    takes: &'static [Argument],
    own: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
) -> Template {
    Template { gives, takes, texts: [own, sqlite, postgres] }
}

/// The same text everywhere.
const fn plain(gives: Family, takes: &'static [Argument], text: &'static str) -> Template {
    Template { gives, takes, texts: [text, text, text] }
}

use Argument::{Days, Divisor, Of, Small};
const I: &[Argument] = &[Of(Integer)];
const II: &[Argument] = &[Of(Integer), Of(Integer)];
const F: &[Argument] = &[Of(Float)];
const D: &[Argument] = &[Of(Decimal)];
const T: &[Argument] = &[Of(Text)];
const TT: &[Argument] = &[Of(Text), Of(Text)];
const TN: &[Argument] = &[Of(Text), Small];
const S: &[Argument] = &[Of(Timestamp)];

/// SQLite: a field of a timestamp in microseconds by `strftime`.
macro_rules! sqlite_field {
    ($field:literal) => {
        concat!(
            "CAST(strftime('",
            $field,
            "', ({0} - ((({0}) % 1000000) + 1000000) % 1000000) / 1000000, 'unixepoch') AS INTEGER)"
        )
    };
}

const SQLITE_FLOOR: &str = "CAST(CAST({0} AS INTEGER) - ({0} < CAST({0} AS INTEGER)) AS REAL)";
const SQLITE_CEILING: &str = "CAST(CAST({0} AS INTEGER) + ({0} > CAST({0} AS INTEGER)) AS REAL)";

/// Ties to even.
const POSTGRES_ROUND: &str = "CASE WHEN ABS({0} * POWER(10.0, {1}) \
     - TRUNC({0} * POWER(10.0, {1}))) = 0.5 \
     THEN ROUND({0} * POWER(10.0, {1}) / 2, 0) * 2 / POWER(10.0, {1}) ELSE ROUND({0}, {1}) END";

/// PostgreSQL: a field of a timestamp.
macro_rules! postgres_field {
    ($field:literal) => {
        concat!("CAST(EXTRACT(", $field, " FROM {0}) AS BIGINT)")
    };
}

/// Everything that can be computed.
pub(super) static TEMPLATES: &[Template] = &[
    plain(Integer, II, "({0} + {1})"),
    plain(Integer, II, "({0} - {1})"),
    plain(Integer, II, "({0} * {1})"),
    plain(Integer, &[Of(Integer), Divisor], "({0} / {1})"),
    plain(Integer, I, "(- {0})"),
    plain(Integer, I, "ABS({0})"),
    function(
        Integer,
        &[Of(Integer), Divisor],
        "MOD({0}, {1})",
        "({0} % {1})",
        "MOD({0}, CAST({1} AS BIGINT))",
    ),
    function(Integer, T, "CHAR_LENGTH({0})", "LENGTH({0})", "CAST(CHAR_LENGTH({0}) AS BIGINT)"),
    function(
        Integer,
        T,
        "OCTET_LENGTH({0})",
        "LENGTH(CAST({0} AS BLOB))",
        "CAST(OCTET_LENGTH({0}) AS BIGINT)",
    ),
    function(
        Integer,
        TT,
        "POSITION({0} IN {1})",
        "INSTR({1}, {0})",
        "CAST(POSITION({0} IN {1}) AS BIGINT)",
    ),
    function(Integer, II, "BITAND({0}, {1})", "({0} & {1})", "({0} & {1})"),
    function(Integer, II, "BITOR({0}, {1})", "({0} | {1})", "({0} | {1})"),
    function(Integer, II, "BITXOR({0}, {1})", "(({0} | {1}) - ({0} & {1}))", "({0} # {1})"),
    function(Integer, I, "BITNOT({0})", "(~ {0})", "(~ {0})"),
    function(
        Integer,
        &[Of(Integer), Small],
        "BIT_SHIFT_LEFT({0}, {1})",
        "({0} << {1})",
        "(CAST({0} AS BIGINT) << {1})",
    ),
    function(
        Integer,
        II,
        "DECODE({0}, 1, {1}, 2, 20, {1}, 5, 7)",
        // DECODE takes NULL for equal to NULL.
        "CASE WHEN {0} = 1 THEN {1} WHEN {0} = 2 THEN 20 WHEN {0} IS {1} THEN 5 ELSE 7 END",
        "CASE WHEN {0} = 1 THEN {1} WHEN {0} = 2 THEN 20
            WHEN {0} IS NOT DISTINCT FROM {1} THEN 5 ELSE 7 END",
    ),
    function(
        Integer,
        I,
        "CAST(CAST({0} AS VARCHAR(30)) AS BIGINT)",
        "CAST(CAST({0} AS TEXT) AS INTEGER)",
        "CAST(CAST({0} AS VARCHAR(30)) AS BIGINT)",
    ),
    function(
        Integer,
        F,
        "CAST({0} AS BIGINT)",
        "CAST({0} AS INTEGER)",
        "CAST(TRUNC({0}) AS BIGINT)",
    ),
    function(
        Integer,
        D,
        "CAST({0} AS BIGINT)",
        "CAST({0} AS INTEGER)",
        "CAST(TRUNC({0}) AS BIGINT)",
    ),
    function(Integer, S, "YEAR({0})", sqlite_field!("%Y"), postgres_field!("YEAR")),
    function(Integer, S, "EXTRACT(MONTH FROM {0})", sqlite_field!("%m"), postgres_field!("MONTH")),
    function(Integer, S, "DAY({0})", sqlite_field!("%d"), postgres_field!("DAY")),
    function(Integer, S, "HOUR({0})", sqlite_field!("%H"), postgres_field!("HOUR")),
    function(
        Integer,
        S,
        "EXTRACT(MINUTE FROM {0})",
        sqlite_field!("%M"),
        postgres_field!("MINUTE"),
    ),
    function(Integer, S, "DAYOFYEAR({0})", sqlite_field!("%j"), postgres_field!("DOY")),
    function(
        Integer,
        S,
        "DAYOFWEEK({0})",
        concat!("(", sqlite_field!("%w"), " + 1)"),
        concat!("(", postgres_field!("DOW"), " + 1)"),
    ),
    function(Integer, S, "WEEKDAY({0})", "", concat!("(", postgres_field!("ISODOW"), " - 1)")),
    function(Integer, S, "WEEK({0})", "", postgres_field!("WEEK")),
    function(Integer, S, "QUARTER({0})", "", postgres_field!("QUARTER")),
    function(
        Integer,
        S,
        "SINCE_EPOCH(MICROSECOND, {0})",
        "({0})",
        "CAST(EXTRACT(EPOCH FROM {0}) * 1000000 AS BIGINT)",
    ),
    function(
        Integer,
        &[Of(Timestamp), Of(Timestamp)],
        "DATEDIFF(DAY, {0}, {1})",
        "",
        "CAST(CAST({1} AS DATE) - CAST({0} AS DATE) AS BIGINT)",
    ),
    plain(Float, &[Of(Float), Of(Float)], "({0} + {1})"),
    plain(Float, &[Of(Float), Of(Float)], "({0} - {1})"),
    plain(Float, &[Of(Float), Of(Float)], "({0} * {1})"),
    plain(Float, &[Of(Float), Of(Integer)], "({0} + {1})"),
    function(
        Float,
        &[Of(Float), Of(Decimal)],
        "({0} - {1})",
        "({0} - {1})",
        "({0} - CAST({1} AS DOUBLE PRECISION))",
    ),
    plain(Float, F, "(- {0})"),
    plain(Float, F, "ABS({0})"),
    function(Float, F, "FLOOR({0})", SQLITE_FLOOR, "FLOOR({0})"),
    function(Float, F, "CEILING({0})", SQLITE_CEILING, "CEILING({0})"),
    function(Float, F, "SQRT(ABS({0}))", "", "SQRT(ABS({0}))"),
    function(Float, &[Of(Float), Small], "POWER({0}, {1})", "", "POWER({0}, {1})"),
    function(Float, I, "CAST({0} AS FLOAT)", "CAST({0} AS REAL)", "CAST({0} AS DOUBLE PRECISION)"),
    function(Float, D, "CAST({0} AS FLOAT)", "CAST({0} AS REAL)", "CAST({0} AS DOUBLE PRECISION)"),
    plain(Decimal, &[Of(Decimal), Of(Decimal)], "({0} + {1})"),
    plain(Decimal, &[Of(Decimal), Of(Decimal)], "({0} - {1})"),
    plain(Decimal, &[Of(Decimal), Of(Integer)], "({0} * {1})"),
    plain(Decimal, &[Of(Decimal), Of(Integer)], "({0} + {1})"),
    plain(Decimal, D, "(- {0})"),
    plain(Decimal, D, "ABS({0})"),
    function(Decimal, D, "FLOOR({0})", SQLITE_FLOOR, "FLOOR({0})"),
    function(Decimal, D, "CEILING({0})", SQLITE_CEILING, "CEILING({0})"),
    function(Decimal, &[Of(Decimal), Small], "ROUND({0}, {1})", "", POSTGRES_ROUND),
    function(
        Decimal,
        I,
        "CAST({0} AS DECIMAL)",
        "CAST({0} AS REAL)",
        "CAST({0} AS NUMERIC(38,12))",
    ),
    function(Decimal, S, "SECOND({0})", "", "CAST(EXTRACT(SECOND FROM {0}) AS NUMERIC(38,12))"),
    plain(Text, T, "UPPER({0})"),
    plain(Text, T, "LOWER({0})"),
    plain(Text, TN, "SUBSTRING({0}, 1, {1})"),
    plain(Text, TN, "SUBSTRING({0}, 2, {1})"),
    function(Text, T, "SUBSTRING({0} FROM 2)", "SUBSTR({0}, 2)", "SUBSTRING({0} FROM 2)"),
    function(Text, TN, "LEFT({0}, {1})", "SUBSTR({0}, 1, {1})", "LEFT({0}, {1})"),
    function(
        Text,
        TN,
        "RIGHT({0}, {1})",
        "SUBSTR({0}, MAX(LENGTH({0}) - {1}, 0) + 1)",
        "RIGHT({0}, {1})",
    ),
    function(Text, TT, "({0} || {1})", "NULLIF({0} || {1}, '')", "NULLIF({0} || {1}, '')"),
    function(Text, TT, "CONCAT({0}, {1})", "NULLIF({0} || {1}, '')", "NULLIF({0} || {1}, '')"),
    plain(Text, T, "REPLACE({0}, 'a', 'xy')"),
    plain(Text, T, "REPLACE({0}, 'ab', '')"),
    plain(Text, T, "TRIM({0})"),
    function(
        Text,
        T,
        "TRIM(LEADING 'a' FROM {0})",
        "LTRIM({0}, 'a')",
        "TRIM(LEADING 'a' FROM {0})",
    ),
    function(
        Text,
        TN,
        "REPEAT({0}, {1})",
        "REPLACE(HEX(ZEROBLOB({1})), '00', {0})",
        "REPEAT({0}, {1})",
    ),
    function(
        Text,
        T,
        "OVERLAY({0} PLACING 'x' FROM 2 FOR 1)",
        "(SUBSTR({0}, 1, 1) || 'x' || SUBSTR({0}, 3))",
        "OVERLAY({0} PLACING 'x' FROM 2 FOR 1)",
    ),
    function(
        Text,
        &[Small],
        "SPACE({0})",
        "REPLACE(HEX(ZEROBLOB({0})), '00', ' ')",
        "REPEAT(' ', {0})",
    ),
    function(Text, I, "CAST({0} AS VARCHAR(30))", "CAST({0} AS TEXT)", "CAST({0} AS VARCHAR(30))"),
    function(
        Text,
        I,
        "HEX({0})",
        "CASE WHEN {0} IS NOT NULL THEN PRINTF('%X', {0}) END",
        "UPPER(TO_HEX(CAST({0} AS BIGINT)))",
    ),
    function(
        Text,
        I,
        "CHAR(65 + MOD(ABS({0}), 20))",
        "CASE WHEN {0} IS NOT NULL THEN CHAR(65 + ABS({0}) % 20) END",
        "CHR(CAST(65 + MOD(ABS({0}), 20) AS INTEGER))",
    ),
    function(Text, TN, "LPAD({0}, {1}, 'xy')", "", "LPAD({0}, {1}, 'xy')"),
    function(Text, TN, "RPAD({0}, {1})", "", "RPAD({0}, {1})"),
    function(Text, T, "REVERSE({0})", "", "REVERSE({0})"),
    function(Text, T, "INITCAP({0})", "", "INITCAP({0})"),
    function(Text, T, "SPLIT_PART({0}, 'b', 1)", "", "SPLIT_PART({0}, 'b', 1)"),
    function(Text, T, "TRANSLATE({0}, 'ab', 'b')", "", "TRANSLATE({0}, 'ab', 'b')"),
    function(Text, TT, "CONCAT_WS('-', {0}, {1})", "", "CONCAT_WS('-', {0}, {1})"),
    function(Integer, T, "ASCII({0})", "", "CAST(ASCII({0}) AS BIGINT)"),
    function(
        Integer,
        TT,
        "STRPOS({0}, {1})",
        "INSTR({0}, {1})",
        "CAST(STRPOS({0}, {1}) AS BIGINT)",
    ),
    function(Integer, I, "SIGN({0})", "(({0} > 0) - ({0} < 0))", "CAST(SIGN({0}) AS BIGINT)"),
    function(Decimal, &[Of(Decimal), Small], "TRUNC({0}, {1})", "", "TRUNC({0}, {1})"),
    function(Decimal, D, "SIGN({0})", "", "SIGN({0})"),
    function(Text, I, "BIN({0})", "", ""),
    function(Text, D, "STR({0}, 10, 2)", "", ""),
    function(Text, D, "FORMAT_CURRENCY({0}, 1)", "", ""),
    function(
        Text,
        T,
        "FIELD('{\"a\":1,\"b\":\"z\"}', CASE WHEN {0} > 'a' THEN 'a' ELSE 'b' END)",
        "",
        "",
    ),
    function(Text, S, "FORMAT_TIMESTAMP({0}, 'UTC')", "", ""),
    function(
        Timestamp,
        S,
        "TRUNCATE(DAY, {0})",
        "({0} - ((({0}) % 86400000000) + 86400000000) % 86400000000)",
        "DATE_TRUNC('day', {0})",
    ),
    function(
        Timestamp,
        S,
        "TRUNCATE(HOUR, {0})",
        "({0} - ((({0}) % 3600000000) + 3600000000) % 3600000000)",
        "DATE_TRUNC('hour', {0})",
    ),
    function(Timestamp, S, "TRUNCATE(MONTH, {0})", "", "DATE_TRUNC('month', {0})"),
    function(Timestamp, S, "TRUNCATE(QUARTER, {0})", "", "DATE_TRUNC('quarter', {0})"),
    function(
        Timestamp,
        &[Of(Timestamp), Days],
        "DATEADD(DAY, {1}, {0})",
        "({0} + ({1}) * 86400000000)",
        "({0} + ({1}) * INTERVAL '1 day')",
    ),
    function(
        Timestamp,
        &[Of(Timestamp), Days],
        "DATEADD(MONTH, {1}, {0})",
        "",
        "", // Known::LastDayOfMonth
    ),
    function(
        Timestamp,
        I,
        "TO_TIMESTAMP(SECOND, MOD({0}, 100000))",
        "(({0} % 100000) * 1000000)",
        "(TIMESTAMP 'epoch' + MOD({0}, CAST(100000 AS BIGINT)) * INTERVAL '1 second')",
    ),
    function(Timestamp, S, "TIME_WINDOW(HOUR, 6, {0})", "", ""),
    function(Bytes, &[Of(Bytes), Of(Bytes)], "({0} || {1})", "", ""),
];
