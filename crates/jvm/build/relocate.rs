//! Moves a library's classes to a package of the runtime's own, so that they are not in the way of
//! a user's: in the compiled classes, names are texts of the constant pool.

use crate::java::{Outcome, find_files};
use std::error::Error;
use std::fs;
use std::path::Path;

const CONSTANT_TEXT: u8 = 1;

/// Renames a package in all classes of a folder, and moves its own there. Both names are of
/// folders, as `org/objectweb/asm`.
pub fn relocate(classes: &Path, from: &str, to: &str) -> Outcome {
    let mut files = Vec::new();
    find_files(classes, "class", &mut files)?;
    let names =
        [(from.to_string(), to.to_string()), (from.replace('/', "."), to.replace('/', "."))];
    for file in files {
        let renamed = rename(&fs::read(&file)?, &names)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        fs::write(&file, renamed)?;
    }
    let target = classes.join(to);
    fs::create_dir_all(target.parent().unwrap_or(classes))?;
    fs::rename(classes.join(from), target)?;
    // The folders above it, up to one that something else is in.
    let mut emptied = classes.join(from);
    while emptied.pop() && emptied != classes && fs::remove_dir(&emptied).is_ok() {}
    Ok(())
}

/// A class file with other names in its texts.
fn rename(class: &[u8], names: &[(String, String)]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut at = 0;
    let mut take = |bytes: usize| -> Result<&[u8], Box<dyn Error>> {
        let taken = class.get(at..at + bytes).ok_or("the class file is cut off")?;
        at += bytes;
        Ok(taken)
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | usize::from(*byte));
    let head = take(10)?;
    let (mut out, count) = (head.to_vec(), number(&head[8..]));
    let mut index = 1;
    while index < count {
        let tag = take(1)?[0];
        out.push(tag);
        match tag {
            CONSTANT_TEXT => {
                let length = number(take(2)?);
                let text = renamed(take(length)?, names);
                out.extend_from_slice(&u16::try_from(text.len())?.to_be_bytes());
                out.extend_from_slice(&text);
            }
            7 | 8 | 16 | 19 | 20 => out.extend_from_slice(take(2)?),
            15 => out.extend_from_slice(take(3)?),
            3 | 4 | 9..=12 | 17 | 18 => out.extend_from_slice(take(4)?),
            5 | 6 => {
                out.extend_from_slice(take(8)?);
                index += 1;
            }
            _ => return Err(format!("constant of unknown kind {tag}").into()),
        }
        index += 1;
    }
    out.extend_from_slice(&class[at..]);
    Ok(out)
}

/// A text with other names. Texts that are not UTF-8, such as Java's zeros, hold none.
fn renamed(text: &[u8], names: &[(String, String)]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(text) else { return text.to_vec() };
    let mut text = text.to_string();
    for (from, to) in names {
        text = text.replace(from, to);
    }
    text.into_bytes()
}
