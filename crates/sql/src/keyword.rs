//! The words that mean something to the grammar, and which of them are reserved.
//!
//! Any word may be a name unless it is reserved here. The list of reserved words is shorter
//! than the standard's: VoltDB takes DATE, VALUE, DEFAULT, ROW and many more as column names.

macro_rules! keywords {
    ($($variant:ident $text:literal $reserved:literal,)*) => {
        /// A word of the grammar.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Keyword {
            /// Not a word of the grammar.
            None,
            $(#[doc = $text] $variant,)*
        }

        /// Every keyword in the order of its text: looked up by binary search.
        const TABLE: &[(&str, Keyword)] = &[$(($text, Keyword::$variant),)*];

        impl Keyword {
            /// The word in upper case.
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    Keyword::None => "a word",
                    $(Keyword::$variant => $text,)*
                }
            }

            /// Whether the word cannot be a name unless quoted.
            pub(crate) fn is_reserved(self) -> bool {
                match self {
                    Keyword::None => false,
                    $(Keyword::$variant => $reserved,)*
                }
            }
        }
    };
}

/// Every word of the grammar, in upper case and in order.
pub fn keywords() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(text, _)| *text)
}

keywords! {
    Add "ADD" false,
    Aggregate "AGGREGATE" false,
    All "ALL" true,
    Allow "ALLOW" false,
    Alter "ALTER" false,
    Always "ALWAYS" false,
    Analyze "ANALYZE" false,
    And "AND" true,
    Any "ANY" true,
    As "AS" true,
    Asc "ASC" false,
    Assumeunique "ASSUMEUNIQUE" false,
    Asymmetric "ASYMMETRIC" false,
    At "AT" true,
    Avg "AVG" true,
    BatchSize "BATCH_SIZE" false,
    Before "BEFORE" false,
    Begin "BEGIN" false,
    Between "BETWEEN" true,
    Bigint "BIGINT" false,
    Both "BOTH" false,
    By "BY" true,
    Bytes "BYTES" false,
    Call "CALL" true,
    Cascade "CASCADE" false,
    Case "CASE" true,
    Cast "CAST" true,
    Char "CHAR" false,
    Character "CHARACTER" false,
    Check "CHECK" false,
    Class "CLASS" false,
    Coalesce "COALESCE" true,
    Column "COLUMN" false,
    Columns "COLUMNS" false,
    Compound "COMPOUND" false,
    Conflict "CONFLICT" false,
    Constraint "CONSTRAINT" false,
    Convert "CONVERT" true,
    Corresponding "CORRESPONDING" true,
    Count "COUNT" true,
    Create "CREATE" true,
    Cron "CRON" false,
    Cross "CROSS" true,
    Cube "CUBE" true,
    Current "CURRENT" false,
    CurrentTimestamp "CURRENT_TIMESTAMP" false,
    Data "DATA" false,
    Database "DATABASE" false,
    Date "DATE" false,
    Dateadd "DATEADD" false,
    Datediff "DATEDIFF" false,
    Days "DAYS" false,
    Decimal "DECIMAL" false,
    Default "DEFAULT" false,
    Delay "DELAY" false,
    Delete "DELETE" false,
    Desc "DESC" false,
    Directed "DIRECTED" false,
    Disable "DISABLE" false,
    Distinct "DISTINCT" true,
    Dr "DR" false,
    Drop "DROP" true,
    Effects "EFFECTS" false,
    Else "ELSE" true,
    Enable "ENABLE" false,
    End "END" false,
    Error "ERROR" false,
    Escape "ESCAPE" false,
    Every "EVERY" true,
    Except "EXCEPT" true,
    Exclude "EXCLUDE" false,
    Execute "EXECUTE" false,
    Exists "EXISTS" true,
    Explain "EXPLAIN" false,
    Export "EXPORT" false,
    Extract "EXTRACT" false,
    False "FALSE" false,
    Fetch "FETCH" false,
    Filter "FILTER" false,
    First "FIRST" false,
    Float "FLOAT" false,
    Following "FOLLOWING" false,
    For "FOR" true,
    Foreign "FOREIGN" false,
    From "FROM" true,
    Full "FULL" true,
    Function "FUNCTION" false,
    Generated "GENERATED" false,
    Geography "GEOGRAPHY" false,
    GeographyPoint "GEOGRAPHY_POINT" false,
    Global "GLOBAL" false,
    Grant "GRANT" true,
    Group "GROUP" true,
    Grouping "GROUPING" true,
    Groups "GROUPS" false,
    Having "HAVING" true,
    Hosts "HOSTS" false,
    Hours "HOURS" false,
    Identity "IDENTITY" false,
    If "IF" false,
    Ignore "IGNORE" false,
    In "IN" true,
    Include "INCLUDE" false,
    Index "INDEX" false,
    Inner "INNER" true,
    Insert "INSERT" false,
    Int "INT" false,
    Integer "INTEGER" false,
    Intersect "INTERSECT" true,
    Into "INTO" true,
    Is "IS" true,
    Join "JOIN" true,
    Key "KEY" false,
    Last "LAST" false,
    Leading "LEADING" true,
    Left "LEFT" true,
    Like "LIKE" true,
    Limit "LIMIT" false,
    Local "LOCAL" false,
    Log "LOG" false,
    Max "MAX" true,
    MaxFrequency "MAX_FREQUENCY" false,
    Method "METHOD" false,
    Migrate "MIGRATE" false,
    Migrating "MIGRATING" false,
    Milliseconds "MILLISECONDS" false,
    Min "MIN" true,
    Minus "MINUS" false,
    Minutes "MINUTES" false,
    Native "NATIVE" false,
    Natural "NATURAL" true,
    Next "NEXT" false,
    No "NO" false,
    Not "NOT" true,
    Now "NOW" false,
    Null "NULL" false,
    Nullif "NULLIF" true,
    Nulls "NULLS" false,
    Offset "OFFSET" false,
    On "ON" true,
    Only "ONLY" false,
    Or "OR" true,
    Order "ORDER" true,
    Others "OTHERS" false,
    Outer "OUTER" true,
    Over "OVER" false,
    Overlay "OVERLAY" false,
    Parameter "PARAMETER" false,
    Parameters "PARAMETERS" false,
    Partition "PARTITION" false,
    Partitions "PARTITIONS" false,
    Placing "PLACING" false,
    Plan "PLAN" false,
    Position "POSITION" false,
    Preceding "PRECEDING" false,
    Primary "PRIMARY" true,
    Procedure "PROCEDURE" false,
    Range "RANGE" false,
    Real "REAL" false,
    Recursive "RECURSIVE" false,
    References "REFERENCES" true,
    Rename "RENAME" false,
    Replicate "REPLICATE" false,
    Returning "RETURNING" false,
    Right "RIGHT" true,
    Role "ROLE" false,
    Rollup "ROLLUP" true,
    Row "ROW" false,
    Rows "ROWS" false,
    Run "RUN" false,
    Schedule "SCHEDULE" false,
    Seconds "SECONDS" false,
    Select "SELECT" true,
    Sequence "SEQUENCE" false,
    Set "SET" true,
    Sets "SETS" false,
    SinceEpoch "SINCE_EPOCH" false,
    Smallint "SMALLINT" false,
    Some "SOME" true,
    Start "START" false,
    Starts "STARTS" false,
    StddevPop "STDDEV_POP" true,
    StddevSamp "STDDEV_SAMP" true,
    Stop "STOP" false,
    Stream "STREAM" false,
    Substring "SUBSTRING" false,
    Sum "SUM" true,
    Symmetric "SYMMETRIC" false,
    Table "TABLE" false,
    Target "TARGET" false,
    Task "TASK" false,
    Then "THEN" true,
    Ties "TIES" false,
    Timestamp "TIMESTAMP" false,
    TimeWindow "TIME_WINDOW" false,
    Tinyint "TINYINT" false,
    To "TO" true,
    Top "TOP" false,
    Topic "TOPIC" false,
    ToTimestamp "TO_TIMESTAMP" false,
    Trailing "TRAILING" true,
    Trigger "TRIGGER" true,
    Trim "TRIM" false,
    True "TRUE" false,
    Truncate "TRUNCATE" false,
    Ttl "TTL" false,
    Unbounded "UNBOUNDED" false,
    Union "UNION" true,
    Unique "UNIQUE" true,
    Unknown "UNKNOWN" false,
    Update "UPDATE" false,
    UpdateNew "UPDATE_NEW" false,
    UpdateOld "UPDATE_OLD" false,
    Upsert "UPSERT" false,
    User "USER" false,
    Using "USING" true,
    Value "VALUE" false,
    Values "VALUES" true,
    Varbinary "VARBINARY" false,
    Varchar "VARCHAR" false,
    Varying "VARYING" false,
    VarPop "VAR_POP" true,
    VarSamp "VAR_SAMP" true,
    Via "VIA" false,
    View "VIEW" false,
    When "WHEN" true,
    Where "WHERE" true,
    Window "WINDOW" false,
    With "WITH" true,
}

/// Longest keyword; longer words are not looked up.
const LONGEST: usize = 20;

impl Keyword {
    /// The keyword that a word spells, in any case.
    pub(crate) fn of(word: &str) -> Keyword {
        let mut upper = [0u8; LONGEST];
        let Some(upper) = upper.get_mut(..word.len()) else { return Keyword::None };
        upper.copy_from_slice(word.as_bytes());
        upper.make_ascii_uppercase();
        match TABLE.binary_search_by(|(text, _)| text.as_bytes().cmp(upper)) {
            Ok(found) => TABLE[found].1,
            Err(_) => Keyword::None,
        }
    }

    /// Whether a query may begin with the word.
    pub(crate) fn begins_query(self) -> bool {
        matches!(self, Keyword::Select | Keyword::With | Keyword::Values)
    }

    /// Whether the word cannot be an alias without AS: what may follow a select item or a table.
    pub(crate) fn ends_item(self) -> bool {
        self.is_reserved()
            || matches!(
                self,
                Keyword::End
                    | Keyword::Limit
                    | Keyword::Offset
                    | Keyword::Fetch
                    | Keyword::Window
                    | Keyword::Returning
                    | Keyword::Minus
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_word_is_found() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} before {}", pair[0].0, pair[1].0);
        }
        for (text, keyword) in TABLE {
            assert_eq!(Keyword::of(&text.to_lowercase()), *keyword);
            assert!(text.len() <= LONGEST);
        }
        assert_eq!(Keyword::of("selec"), Keyword::None);
        assert_eq!(Keyword::of(&"x".repeat(100)), Keyword::None);
    }
}
