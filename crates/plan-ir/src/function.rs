//! The built-in functions and aggregates by name. What they compute is the executor's; which
//! argument types they take and what type they give is the binder's.

macro_rules! functions {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "a variant is the SQL function of its name")]
        pub enum $name { $($variant),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The name in SQL (the first, where there are several).
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }
    };
}

functions! {
    /// Scalar functions after lowering: aliases (CEIL, LCASE, LENGTH, IFNULL ...) and special
    /// syntaxes are the binder's. Arguments come in the order of the function-call form; a calendar
    /// unit is a literal VARCHAR in upper case, singular and long form (`'MILLISECOND'`,
    /// `'MICROSECOND'`), as first argument. PARTITION KEY is the planner's own: of the values of
    /// several partitioning columns it makes the VARBINARY value that is hashed for all of them.
    /// PLACE OF, too: see [`crate::lookup`].
    Function {
        Abs = "ABS", Ceiling = "CEILING", Floor = "FLOOR", Exp = "EXP", Ln = "LN",
        Log10 = "LOG10", Power = "POWER", Sqrt = "SQRT", Round = "ROUND",
        Pi = "PI", Sin = "SIN", Cos = "COS", Tan = "TAN", Cot = "COT", Csc = "CSC", Sec = "SEC",
        Degrees = "DEGREES", Radians = "RADIANS",
        BitAnd = "BITAND", BitOr = "BITOR", BitXor = "BITXOR", BitNot = "BITNOT",
        BitShiftLeft = "BIT_SHIFT_LEFT", BitShiftRight = "BIT_SHIFT_RIGHT",
        Bin = "BIN", Hex = "HEX",
        Char = "CHAR", CharLength = "CHAR_LENGTH", OctetLength = "OCTET_LENGTH",
        Concat = "CONCAT", ConcatOperator = "||", FormatCurrency = "FORMAT_CURRENCY", Str = "STR",
        Left = "LEFT", Right = "RIGHT", Lower = "LOWER", Upper = "UPPER",
        Overlay = "OVERLAY", Insert = "INSERT", Position = "POSITION",
        RegexpPosition = "REGEXP_POSITION", Repeat = "REPEAT", Replace = "REPLACE",
        Space = "SPACE", Substring = "SUBSTRING",
        TrimBoth = "TRIM BOTH", TrimLeading = "TRIM LEADING", TrimTrailing = "TRIM TRAILING",
        Now = "NOW", DateAdd = "DATEADD", DateDiff = "DATEDIFF",
        TimeWindow = "TIME_WINDOW", FormatTimestamp = "FORMAT_TIMESTAMP",
        FromUnixTime = "FROM_UNIXTIME", SinceEpoch = "SINCE_EPOCH", ToTimestamp = "TO_TIMESTAMP",
        TruncateTimestamp = "TRUNCATE",
        MinValidTimestamp = "MIN_VALID_TIMESTAMP", MaxValidTimestamp = "MAX_VALID_TIMESTAMP",
        IsValidTimestamp = "IS_VALID_TIMESTAMP",
        Year = "YEAR", Quarter = "QUARTER", Month = "MONTH", DayOfMonth = "DAY",
        DayOfWeek = "DAYOFWEEK", DayOfYear = "DAYOFYEAR", WeekOfYear = "WEEK",
        Weekday = "WEEKDAY", Hour = "HOUR", Minute = "MINUTE", Second = "SECOND",
        Field = "FIELD", ArrayElement = "ARRAY_ELEMENT", ArrayLength = "ARRAY_LENGTH",
        SetField = "SET_FIELD",
        InetAton = "INET_ATON", InetNtoa = "INET_NTOA",
        Inet6Aton = "INET6_ATON", Inet6Ntoa = "INET6_NTOA",
        SqlError = "SQL_ERROR",
        AddText = "+",
        Ascii = "ASCII", PadLeft = "LPAD", PadRight = "RPAD", Reverse = "REVERSE",
        InitialCapitals = "INITCAP", SplitPart = "SPLIT_PART", Translate = "TRANSLATE",
        ConcatWithSeparator = "CONCAT_WS",
        Sign = "SIGN", TruncateNumber = "TRUNC", Greatest = "GREATEST", Least = "LEAST",
        ArcSine = "ASIN", ArcCosine = "ACOS", ArcTangent = "ATAN", ArcTangent2 = "ATAN2",
        HyperbolicSine = "SINH", HyperbolicCosine = "COSH", HyperbolicTangent = "TANH",
        CubeRoot = "CBRT",
        PointFromText = "POINTFROMTEXT", PolygonFromText = "POLYGONFROMTEXT",
        ValidPolygonFromText = "VALIDPOLYGONFROMTEXT", Contains = "CONTAINS",
        NumInteriorRings = "NUMINTERIORRINGS", NumPoints = "NUMPOINTS", Latitude = "LATITUDE",
        Longitude = "LONGITUDE", Centroid = "CENTROID", Area = "AREA", Distance = "DISTANCE",
        DistanceWithin = "DWITHIN", AsText = "ASTEXT", IsValid = "ISVALID",
        IsInvalidReason = "ISINVALIDREASON", MakeValidPolygon = "MAKEVALIDPOLYGON",
        PartitionKey = "PARTITION KEY", PlaceOf = "PLACE OF",
    }
}

functions! {
    /// Aggregates. Those of the variance family are FLOAT; they also take the parts that
    /// partitions made of their values, as VARBINARY. Which function of users it is, the call says.
    AggregateFunction {
        CountStar = "COUNT(*)", Count = "COUNT", Sum = "SUM", Average = "AVG",
        Min = "MIN", Max = "MAX",
        VariancePopulation = "VAR_POP", VarianceSample = "VAR_SAMP",
        DeviationPopulation = "STDDEV_POP", DeviationSample = "STDDEV_SAMP",
        Moments = "parts of VARIANCE", ApproximateCountDistinct = "APPROX_COUNT_DISTINCT",
        ApproximateCountDistinctSketch = "sketch of APPROX_COUNT_DISTINCT",
        ApproximateCountDistinctMerge = "merge of APPROX_COUNT_DISTINCT",
        User = "user-defined", UserParts = "parts of user-defined",
        UserMerge = "merge of user-defined",
    }
}
