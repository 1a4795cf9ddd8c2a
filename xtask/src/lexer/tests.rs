//! The lexer against the places where telling code from text is hard.

use super::*;

fn names_and_lines(source: &str) -> Vec<(String, usize)> {
    functions(&mask(source).code).into_iter().map(|f| (f.name, f.lines)).collect()
}

#[test]
fn layers_have_the_length_and_lines_of_the_source() {
    let source = "let s = \"a{\nb\"; // c{ é\n/* { /* } */ */ 'x' r#\"\"{\"# b'{' 'life {}";
    let masked = mask(source);
    assert_eq!(masked.code.len(), source.len());
    assert_eq!(masked.comments.len(), source.len());
    assert_eq!(masked.code.matches('{').count(), 1, "{}", masked.code);
    assert_eq!(masked.code.lines().count(), source.lines().count());
    assert!(masked.comments.contains("// c{ é"));
}

#[test]
fn braces_in_literals_and_comments_do_not_end_a_function() {
    let source = r####"
fn one() {
    let a = "}"; let b = '}'; let c = r#"}"}"#; // }
    /* } */ let d = b'}'; let e = '\''; let f = b"}\"}";
}
fn two<'a>(x: &'a str) -> [u8; 2] { [0; 2] }
"####;
    assert_eq!(names_and_lines(source), [("one".into(), 4), ("two".into(), 1)]);
}

#[test]
fn signatures_over_lines_count_and_bodiless_functions_do_not() {
    let source =
        "trait T {\n fn a(&self);\n fn b(\n  &self,\n ) -> u8 {\n  1\n }\n}\nlet f: fn(u8);";
    assert_eq!(names_and_lines(source), [("b".into(), 5)]);
}

#[test]
fn nested_functions_are_counted_apart() {
    let source = "fn outer() {\n fn inner() {\n }\n}\n";
    assert_eq!(names_and_lines(source), [("outer".into(), 4), ("inner".into(), 2)]);
}

#[test]
fn lifetimes_do_not_open_characters() {
    let source = "fn f<'a>(x: &'a u8) where 'a: 'static { 'outer: loop { break 'outer } }";
    assert_eq!(mask(source).code, source);
}

#[test]
fn raw_identifiers_and_words_with_prefix_letters_stay_code() {
    let source = "let r#type = bar; let r = b + c; crate::br(r)";
    assert_eq!(mask(source).code, source);
}

#[test]
fn test_ranges_hold_test_items_only() {
    let code = "fn a() { x }\n#[cfg(test)]\nmod t { y }\nfn b() { z }\n#[test]\nfn c() { v }\n";
    let ranges = test_ranges(code);
    let inside = |word: &str| {
        let at = code.find(word).expect("the word is in the source");
        ranges.iter().any(|range| range.contains(&at))
    };
    assert!(inside("y }"));
    assert!(inside("v }"));
    assert!(!inside("x }"));
    assert!(!inside("z }"));
    assert!(test_ranges("#[cfg(not(test))]\nfn a() { x }").is_empty());
}

#[test]
fn words_are_whole() {
    let text = "unsafe unsafe_code my_unsafe (unsafe)";
    assert_eq!(word_positions(text, "unsafe").collect::<Vec<_>>(), [0, 30]);
}
