//! Comma-separated values: how files are written, and the options that say so.

pub mod reader;
pub mod writer;

use clap::{Arg, ArgAction, ArgMatches};

/// How values are parted and quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Between two values.
    pub delimiter: u8,
    /// Around values that hold delimiters, quotes or line ends; `None`: quotes are data.
    pub quote: Option<u8>,
    /// In front of a quote within quotes, and of itself; `None`: a quote is written twice.
    pub escape: Option<u8>,
}

impl Default for Dialect {
    fn default() -> Self {
        Dialect { delimiter: b',', quote: Some(b'"'), escape: None }
    }
}

/// The options of [`Dialect`], for commands that read or write files.
pub fn dialect_arguments() -> [Arg; 3] {
    let option = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("CHARACTER").default_value(default).help(help)
    };
    [
        option("delimiter", ",", "Between values: an ASCII character, `tab`"),
        option("quote", "\"", "Around values that need it; `none`: quotes are data"),
        Arg::new("escape").long("escape").value_name("CHARACTER").help(
            "In front of a quote within quotes, and of itself [default: a quote is written twice]",
        ),
    ]
}

/// `--header`.
pub fn header_argument(help: &'static str) -> Arg {
    Arg::new("header").long("header").action(ArgAction::SetTrue).help(help)
}

impl Dialect {
    /// What the options say.
    ///
    /// # Errors
    /// One is no single ASCII character, or two are the same.
    pub fn of(arguments: &ArgMatches) -> Result<Dialect, String> {
        let text = |name: &str| arguments.get_one::<String>(name).map(String::as_str);
        let quote = text("quote").filter(|quote| *quote != "none");
        let dialect = Dialect {
            delimiter: character("delimiter", text("delimiter").unwrap_or(","))?,
            quote: quote.map(|quote| character("quote", quote)).transpose()?,
            escape: text("escape").map(|escape| character("escape", escape)).transpose()?,
        };
        // Quotes that are doubled are escapes of themselves.
        let dialect =
            Dialect { escape: dialect.escape.filter(|e| Some(*e) != dialect.quote), ..dialect };
        if dialect.quote == Some(dialect.delimiter) || dialect.escape == Some(dialect.delimiter) {
            return Err("--delimiter must differ from --quote and --escape".to_string());
        }
        if dialect.quote.is_none() && dialect.escape.is_some() {
            return Err("--escape needs a --quote: it counts within quotes only".to_string());
        }
        Ok(dialect)
    }
}

fn character(option: &str, text: &str) -> Result<u8, String> {
    let character = match text {
        "tab" | "\\t" => b'\t',
        _ => match text.as_bytes() {
            [one] if one.is_ascii() => *one,
            _ => return Err(format!("--{option} takes one ASCII character, not '{text}'")),
        },
    };
    match character {
        b'\n' | b'\r' => Err(format!("--{option} cannot be a line end")),
        character => Ok(character),
    }
}
