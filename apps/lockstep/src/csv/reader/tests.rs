//! Well-formed and hostile text, each read in one piece and byte by byte.

use super::*;
use crate::csv::writer::{Rules, write_value};
use lockstep_base::random::SeededRandom;
use lockstep_types::Datum;

/// Gives a few bytes at a time.
struct Drip<'a>(&'a [u8], usize);

impl Read for Drip<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(self.0.len()).min(out.len());
        out[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

/// Records as `line: a|'quoted'`, errors as `line:column! reason`.
fn read(text: &[u8], dialect: Dialect, limit: usize, step: usize) -> Vec<String> {
    let mut reader = Reader::new(Drip(text, step), dialect, limit);
    let mut shown = Vec::new();
    loop {
        match reader.next() {
            Err(error) => {
                shown.push(format!("! {error}"));
                return shown;
            }
            Ok(None) => return shown,
            Ok(Some(Err(error))) => {
                let text = String::from_utf8_lossy(&error.text).to_string();
                let (line, column) = (error.line, error.column);
                shown.push(format!("{line}:{column}! {} [{text}]", error.reason));
            }
            Ok(Some(Ok(record))) => {
                let value = |place| {
                    let value = record.value(place);
                    let text = String::from_utf8_lossy(value.bytes).to_string();
                    if value.quoted { format!("'{text}'") } else { text }
                };
                let values: Vec<String> = (0..record.len()).map(value).collect();
                shown.push(format!("{}: {}", record.line, values.join("|")));
            }
        }
    }
}

fn check(text: &str, dialect: Dialect, limit: usize, expected: &[&str]) {
    for step in [usize::MAX, 7, 3, 1] {
        assert_eq!(read(text.as_bytes(), dialect, limit, step), expected, "{text:?} step {step}");
    }
}

#[test]
fn records_are_read() {
    for (text, expected) in [
        ("a,b\nc,d\n", &["1: a|b", "2: c|d"][..]),
        ("a,b", &["1: a|b"]),
        ("a,\r\n,\r\n", &["1: a|", "2: |"]),
        ("\n\nx\n", &["1: ", "2: ", "3: x"]),
        ("\"a,b\",\"\"\n", &["1: 'a,b'|''"]),
        ("\"say \"\"hi\"\"\",x\n", &["1: 'say \"hi\"'|x"]),
        ("\"two\nlines\",1\nnext,2\n", &["1: 'two\nlines'|1", "3: next|2"]),
        ("\"two\r\nlines\"\r\n", &["1: 'two\r\nlines'"]),
        ("a\rb,c\r", &["1: a\rb|c"]),
        ("\"\"\"\"\n", &["1: '\"'"]),
        ("\u{feff}a\n", &["1: a"]),
        ("é,ü\n", &["1: é|ü"]),
        ("", &[]),
    ] {
        check(text, Dialect::default(), 1000, expected);
    }
}

#[test]
fn dialects_are_kept_to() {
    let escaped = Dialect { escape: Some(b'\\'), ..Dialect::default() };
    check("\"a\\\"b\\\\\",\\N\n", escaped, 1000, &["1: 'a\"b\\'|\\N"]);
    check(
        "\"a\"\"b\"\n",
        escaped,
        1000,
        &["1:4! text after the quote that ends the value [\"a\"\"b\"]"],
    );
    let plain = Dialect { delimiter: b'|', quote: None, escape: None };
    check("5\" pipe|\"x\n", plain, 1000, &["1: 5\" pipe|\"x"]);
    let tabs = Dialect { delimiter: b'\t', ..Dialect::default() };
    check("a,b\t'c'\n", tabs, 1000, &["1: a,b|'c'"]);
}

#[test]
fn hostile_text_costs_a_line_and_names_its_place() {
    let open = "this quote does not end";
    for (text, limit, expected) in [
        ("a\n\"b\nc\n", 99, vec!["1: a".to_string(), format!("2:1! {open} [\"b]"), "3: c".into()]),
        (
            "ok,\"x\" y\nz\n",
            99,
            vec![
                "1:7! text after the quote that ends the value [ok,\"x\" y]".into(),
                "2: z".into(),
            ],
        ),
        (
            "é\"b,c\nz\n",
            99,
            vec![
                "1:2! a quote within a value that does not begin with one [é\"b,c]".into(),
                "2: z".into(),
            ],
        ),
        (
            "\"one\ntwo\" x\nz\n",
            99,
            vec![
                "2:5! text after the quote that ends the value [\"one]".into(),
                "2:4! a quote within a value that does not begin with one [two\" x]".into(),
                "3: z".into(),
            ],
        ),
        (
            "0123456789012345678901234\nz\n",
            20,
            vec![
                "1:1! the record has more than 20 bytes (--max-record-bytes)".into(),
                "2: z".into(),
            ],
        ),
        (
            "\"123456789\n12345678901234\nz\n",
            20,
            vec![
                "1:1! the quote that opens here does not end within 20 bytes (--max-record-bytes)"
                    .into(),
                "2: 12345678901234".into(),
                "3: z".into(),
            ],
        ),
        ("\"", 99, vec![format!("1:1! {open} [\"]")]),
        ("a,\"", 99, vec![format!("1:3! {open} [a,\"]")]),
    ] {
        // How much of an over-long record is shown depends on how it came.
        let without_text = |lines: Vec<String>| -> Vec<String> {
            let cut = |line: String| match line.contains("--max-record") {
                true => line.split(" [").next().unwrap_or_default().to_string(),
                false => line,
            };
            lines.into_iter().map(cut).collect()
        };
        for step in [3, 1] {
            let shown = without_text(read(text.as_bytes(), Dialect::default(), limit, step));
            assert_eq!(shown, expected, "{text:?} step {step}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_passed_on_and_wide_text_is_refused() {
    assert_eq!(read(b"a,\xff\xfe\n", Dialect::default(), 99, 1), ["1: a|\u{fffd}\u{fffd}"]);
    let shown = read(b"\xff\xfea\0", Dialect::default(), 99, 1);
    assert_eq!(shown, ["! the text is UTF-16; convert it to UTF-8 first"]);
    assert_eq!(read(b"a\0b\n", Dialect::default(), 99, 1), ["1: a\0b"]);
}

#[test]
fn lines_are_left_out_and_values_have_places() {
    let mut reader = Reader::new(&b"x\"\ny\na,\"b\"\"\",\"c\nd\",e\n"[..], Dialect::default(), 99);
    reader.skip_lines(2).expect("it is read");
    let record = reader.next().expect("it is read").expect("a record").expect("well-formed");
    let places: Vec<_> = (0..record.len()).map(|place| record.position(place)).collect();
    assert_eq!(places, [(3, 1), (3, 3), (3, 9), (4, 4)]);
    assert_eq!(record.text, b"a,\"b\"\"\",\"c\nd\",e");
    assert!(reader.next().expect("it is read").is_none());
    assert_eq!((reader.consumed(), reader.line()), (21, 5));
}

/// Text of the characters that matter, from a seed.
fn random_text(random: &mut SeededRandom, most: u64) -> String {
    const CHARACTERS: [char; 10] = ['a', 'b', ',', '"', '\n', '\r', '\\', 'é', 'N', ' '];
    (0..random.below(most)).map(|_| CHARACTERS[random.below(10) as usize]).collect()
}

fn random_dialect(random: &mut SeededRandom) -> Dialect {
    let escape = (random.below(2) == 0).then_some(b'\\');
    Dialect { escape, ..Dialect::default() }
}

#[test]
fn random_text_reads_the_same_however_it_comes() {
    for seed in 0..4_000 {
        let mut random = SeededRandom::new(seed);
        let dialect = random_dialect(&mut random);
        let text = random_text(&mut random, 40);
        let whole = read(text.as_bytes(), dialect, 1000, usize::MAX);
        for step in [1, 2, 5] {
            let parts = read(text.as_bytes(), dialect, 1000, step);
            assert_eq!(parts, whole, "seed {seed}: {text:?}");
        }
        // A small limit ends somewhere, whatever it meets.
        read(text.as_bytes(), dialect, 4, 3);
    }
}

#[test]
fn random_values_are_read_as_they_were_written() {
    for seed in 0..4_000 {
        let mut random = SeededRandom::new(seed);
        let dialect = random_dialect(&mut random);
        let null = "\\N".to_string();
        let rules = Rules { dialect, null: String::new(), read_as_null: vec![null.clone()] };
        let width = random.below(4) as usize + 1;
        let value =
            |random: &mut SeededRandom| (random.below(5) > 0).then(|| random_text(random, 9));
        let rows: Vec<Vec<Option<String>>> =
            (0..5).map(|_| (0..width).map(|_| value(&mut random)).collect()).collect();
        let mut text = Vec::new();
        for row in &rows {
            for (place, value) in row.iter().enumerate() {
                if place > 0 {
                    text.push(b',');
                }
                let datum = value.as_deref().map_or(Datum::Null, Datum::Text);
                write_value(&mut text, datum, &rules).expect("there are quotes");
            }
            text.push(b'\n');
        }
        let mut reader = Reader::new(&text[..], dialect, 1000);
        for row in &rows {
            let record = reader.next().expect("it is read").expect("a record");
            let record = record.unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
            let read = |place| {
                let value = record.value(place);
                let text = String::from_utf8(value.bytes.to_vec()).expect("text");
                (value.quoted || (!text.is_empty() && text != null)).then_some(text)
            };
            let values: Vec<Option<String>> = (0..record.len()).map(read).collect();
            assert_eq!(&values, row, "seed {seed}");
        }
        assert!(reader.next().expect("it is read").is_none(), "seed {seed}");
    }
}
