//! The scalar functions: names, arguments and results.

use lockstep_plan_ir::Function;
use lockstep_types::SqlType;

/// What an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// VARCHAR.
    Text,
    /// Any integer.
    Integer,
    /// Any number, as it is.
    Number,
    /// Any number, as FLOAT.
    Float,
    /// Any number, as DECIMAL.
    Decimal,
    /// TIMESTAMP.
    Time,
    /// VARBINARY.
    Bytes,
    /// VARCHAR or an integer.
    TextOrInteger,
    /// GEOGRAPHY_POINT.
    Point,
    /// GEOGRAPHY.
    Polygon,
    /// GEOGRAPHY_POINT or GEOGRAPHY.
    Shape,
}

impl Argument {
    /// What a message says is expected.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Argument::Text => "VARCHAR",
            Argument::Integer => "an integer",
            Argument::Number | Argument::Float | Argument::Decimal => "a number",
            Argument::Time => "TIMESTAMP",
            Argument::Bytes => "VARBINARY",
            Argument::TextOrInteger => "VARCHAR or an integer",
            Argument::Point => "GEOGRAPHY_POINT",
            Argument::Polygon => "GEOGRAPHY",
            Argument::Shape => "GEOGRAPHY_POINT or GEOGRAPHY",
        }
    }
}

/// The type of a function's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gives {
    /// Always this.
    Type(SqlType),
    /// The first argument's.
    First,
}

/// A function with plain arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signature {
    /// The names, in upper case.
    pub(super) names: &'static [&'static str],
    /// The function.
    pub(super) function: Function,
    /// Arguments that must be there.
    pub(super) required: &'static [Argument],
    /// Arguments that may follow.
    pub(super) optional: &'static [Argument],
    /// The result.
    pub(super) gives: Gives,
}

const fn signature(
    names: &'static [&'static str],
    function: Function,
    required: &'static [Argument],
    optional: &'static [Argument],
    gives: Gives,
) -> Signature {
    Signature { names, function, required, optional, gives }
}

use Argument::{
    Bytes, Decimal, Float, Integer, Number, Point, Polygon, Shape, Text, TextOrInteger, Time,
};
use Function as F;
const INTEGER: Gives = Gives::Type(SqlType::Integer);
const BIGINT: Gives = Gives::Type(SqlType::BigInt);
const FLOAT: Gives = Gives::Type(SqlType::Float);
const DECIMAL: Gives = Gives::Type(SqlType::Decimal);
const TEXT: Gives = Gives::Type(SqlType::Varchar);
const BYTES: Gives = Gives::Type(SqlType::Varbinary);
const TIME: Gives = Gives::Type(SqlType::Timestamp);
const POINT: Gives = Gives::Type(SqlType::GeographyPoint);
const POLYGON: Gives = Gives::Type(SqlType::Geography);
const BOOLEAN: Gives = Gives::Type(SqlType::Boolean);
const FIRST: Gives = Gives::First;

/// The function of a name.
pub(super) fn find(name: &str) -> Option<&'static Signature> {
    SIGNATURES.iter().find(|signature| signature.names.contains(&name))
}

/// All names, for suggestions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SIGNATURES.iter().flat_map(|signature| signature.names.iter().copied())
}

static SIGNATURES: &[Signature] = &[
    signature(&["ABS"], F::Abs, &[Number], &[], FIRST),
    signature(&["CEILING", "CEIL"], F::Ceiling, &[Number], &[], FIRST),
    signature(&["FLOOR"], F::Floor, &[Number], &[], FIRST),
    signature(&["EXP"], F::Exp, &[Float], &[], FLOAT),
    signature(&["LN", "LOG"], F::Ln, &[Float], &[], FLOAT),
    signature(&["LOG10"], F::Log10, &[Float], &[], FLOAT),
    signature(&["POWER"], F::Power, &[Float, Float], &[], FLOAT),
    signature(&["SQRT"], F::Sqrt, &[Float], &[], FLOAT),
    signature(&["ROUND"], F::Round, &[Decimal, Integer], &[], DECIMAL),
    signature(&["PI"], F::Pi, &[], &[], FLOAT),
    signature(&["SIN"], F::Sin, &[Float], &[], FLOAT),
    signature(&["COS"], F::Cos, &[Float], &[], FLOAT),
    signature(&["TAN"], F::Tan, &[Float], &[], FLOAT),
    signature(&["COT"], F::Cot, &[Float], &[], FLOAT),
    signature(&["CSC"], F::Csc, &[Float], &[], FLOAT),
    signature(&["SEC"], F::Sec, &[Float], &[], FLOAT),
    signature(&["DEGREES"], F::Degrees, &[Float], &[], FLOAT),
    signature(&["RADIANS"], F::Radians, &[Float], &[], FLOAT),
    signature(&["BITAND"], F::BitAnd, &[Integer, Integer], &[], BIGINT),
    signature(&["BITOR"], F::BitOr, &[Integer, Integer], &[], BIGINT),
    signature(&["BITXOR"], F::BitXor, &[Integer, Integer], &[], BIGINT),
    signature(&["BITNOT"], F::BitNot, &[Integer], &[], BIGINT),
    signature(&["BIT_SHIFT_LEFT"], F::BitShiftLeft, &[Integer, Integer], &[], BIGINT),
    signature(&["BIT_SHIFT_RIGHT"], F::BitShiftRight, &[Integer, Integer], &[], BIGINT),
    signature(&["BIN"], F::Bin, &[Integer], &[], TEXT),
    signature(&["HEX"], F::Hex, &[Integer], &[], TEXT),
    signature(&["CHAR", "CHR"], F::Char, &[Integer], &[], TEXT),
    signature(&["CHAR_LENGTH", "CHARACTER_LENGTH", "LENGTH"], F::CharLength, &[Text], &[], BIGINT),
    signature(&["FORMAT_CURRENCY"], F::FormatCurrency, &[Decimal, Integer], &[], TEXT),
    signature(&["STR"], F::Str, &[Decimal], &[Integer, Integer], TEXT),
    signature(&["LEFT"], F::Left, &[Text, Integer], &[], TEXT),
    signature(&["RIGHT"], F::Right, &[Text, Integer], &[], TEXT),
    signature(&["LOWER", "LCASE"], F::Lower, &[Text], &[], TEXT),
    signature(&["UPPER", "UCASE"], F::Upper, &[Text], &[], TEXT),
    signature(&["OVERLAY"], F::Overlay, &[Text, Text, Integer], &[Integer], TEXT),
    signature(&["INSERT"], F::Insert, &[Text, Integer, Integer, Text], &[], TEXT),
    signature(&["POSITION"], F::Position, &[Text, Text], &[], BIGINT),
    signature(&["REGEXP_POSITION"], F::RegexpPosition, &[Text, Text], &[Text], BIGINT),
    signature(&["REPEAT"], F::Repeat, &[Text, Integer], &[], TEXT),
    signature(&["REPLACE"], F::Replace, &[Text, Text], &[Text], TEXT),
    signature(&["SPACE"], F::Space, &[Integer], &[], TEXT),
    signature(&["SUBSTRING", "SUBSTR"], F::Substring, &[Text, Integer], &[Integer], TEXT),
    signature(&["LTRIM"], F::TrimLeading, &[Text], &[], TEXT),
    signature(&["RTRIM"], F::TrimTrailing, &[Text], &[], TEXT),
    signature(&["FORMAT_TIMESTAMP"], F::FormatTimestamp, &[Time, Text], &[], TEXT),
    signature(&["FROM_UNIXTIME"], F::FromUnixTime, &[Integer], &[], TIME),
    signature(&["MIN_VALID_TIMESTAMP"], F::MinValidTimestamp, &[], &[], TIME),
    signature(&["MAX_VALID_TIMESTAMP"], F::MaxValidTimestamp, &[], &[], TIME),
    signature(&["IS_VALID_TIMESTAMP"], F::IsValidTimestamp, &[Time], &[], BOOLEAN),
    signature(&["YEAR"], F::Year, &[Time], &[], INTEGER),
    signature(&["QUARTER"], F::Quarter, &[Time], &[], INTEGER),
    signature(&["MONTH"], F::Month, &[Time], &[], INTEGER),
    signature(&["DAY", "DAYOFMONTH"], F::DayOfMonth, &[Time], &[], INTEGER),
    signature(&["DAYOFWEEK"], F::DayOfWeek, &[Time], &[], INTEGER),
    signature(&["DAYOFYEAR"], F::DayOfYear, &[Time], &[], INTEGER),
    signature(&["WEEK", "WEEKOFYEAR"], F::WeekOfYear, &[Time], &[], INTEGER),
    signature(&["WEEKDAY"], F::Weekday, &[Time], &[], INTEGER),
    signature(&["HOUR"], F::Hour, &[Time], &[], INTEGER),
    signature(&["MINUTE"], F::Minute, &[Time], &[], INTEGER),
    signature(&["SECOND"], F::Second, &[Time], &[], DECIMAL),
    signature(&["FIELD"], F::Field, &[Text, Text], &[], TEXT),
    signature(&["ARRAY_ELEMENT"], F::ArrayElement, &[Text, Integer], &[], TEXT),
    signature(&["ARRAY_LENGTH"], F::ArrayLength, &[Text], &[], INTEGER),
    signature(&["SET_FIELD"], F::SetField, &[Text, Text, Text], &[], TEXT),
    signature(&["INET_ATON"], F::InetAton, &[Text], &[], BIGINT),
    signature(&["INET_NTOA"], F::InetNtoa, &[Integer], &[], TEXT),
    signature(&["INET6_ATON"], F::Inet6Aton, &[Text], &[], BYTES),
    signature(&["INET6_NTOA"], F::Inet6Ntoa, &[Bytes], &[], TEXT),
    // What PostgreSQL has besides.
    signature(&["ASCII"], F::Ascii, &[Text], &[], INTEGER),
    signature(&["LPAD"], F::PadLeft, &[Text, Integer], &[Text], TEXT),
    signature(&["RPAD"], F::PadRight, &[Text, Integer], &[Text], TEXT),
    signature(&["REVERSE"], F::Reverse, &[Text], &[], TEXT),
    signature(&["INITCAP"], F::InitialCapitals, &[Text], &[], TEXT),
    signature(&["SPLIT_PART"], F::SplitPart, &[Text, Text, Integer], &[], TEXT),
    signature(&["TRANSLATE"], F::Translate, &[Text, Text, Text], &[], TEXT),
    signature(&["SIGN"], F::Sign, &[Number], &[], FIRST),
    signature(&["TRUNC"], F::TruncateNumber, &[Number], &[Integer], FIRST),
    signature(&["ASIN"], F::ArcSine, &[Float], &[], FLOAT),
    signature(&["ACOS"], F::ArcCosine, &[Float], &[], FLOAT),
    signature(&["ATAN"], F::ArcTangent, &[Float], &[], FLOAT),
    signature(&["ATAN2"], F::ArcTangent2, &[Float, Float], &[], FLOAT),
    signature(&["SINH"], F::HyperbolicSine, &[Float], &[], FLOAT),
    signature(&["COSH"], F::HyperbolicCosine, &[Float], &[], FLOAT),
    signature(&["TANH"], F::HyperbolicTangent, &[Float], &[], FLOAT),
    signature(&["CBRT"], F::CubeRoot, &[Float], &[], FLOAT),
    signature(&["POINTFROMTEXT"], F::PointFromText, &[Text], &[], POINT),
    signature(&["POLYGONFROMTEXT"], F::PolygonFromText, &[Text], &[], POLYGON),
    signature(&["VALIDPOLYGONFROMTEXT"], F::ValidPolygonFromText, &[Text], &[], POLYGON),
    signature(&["CONTAINS"], F::Contains, &[Polygon, Point], &[], BOOLEAN),
    signature(
        &["NUMINTERIORRINGS", "NUMINTERIORRING"],
        F::NumInteriorRings,
        &[Polygon],
        &[],
        INTEGER,
    ),
    signature(&["NUMPOINTS"], F::NumPoints, &[Polygon], &[], INTEGER),
    signature(&["LATITUDE"], F::Latitude, &[Point], &[], FLOAT),
    signature(&["LONGITUDE"], F::Longitude, &[Point], &[], FLOAT),
    signature(&["CENTROID"], F::Centroid, &[Polygon], &[], POINT),
    signature(&["AREA"], F::Area, &[Polygon], &[], FLOAT),
    signature(&["DISTANCE"], F::Distance, &[Shape, Shape], &[], FLOAT),
    signature(&["DWITHIN"], F::DistanceWithin, &[Shape, Shape, Float], &[], BOOLEAN),
    signature(&["ASTEXT"], F::AsText, &[Shape], &[], TEXT),
    signature(&["ISVALID"], F::IsValid, &[Polygon], &[], BOOLEAN),
    signature(&["ISINVALIDREASON"], F::IsInvalidReason, &[Polygon], &[], TEXT),
    signature(&["MAKEVALIDPOLYGON"], F::MakeValidPolygon, &[Polygon], &[], POLYGON),
    signature(&["SQL_ERROR"], F::SqlError, &[TextOrInteger], &[Text], BIGINT),
];
