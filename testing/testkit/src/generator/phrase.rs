//! Statements as trees of text: each node has a text for every SQL dialect, and the tree knows
//! how it can be made smaller.

use super::Family;

/// Whose SQL a phrase is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// This database's.
    Lockstep,
    /// SQLite's.
    Sqlite,
    /// PostgreSQL's.
    Postgres,
}

/// What a phrase stands for, which says what may stand in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Nothing else may.
    Fixed,
    /// A value: a part of the same family may, or a constant.
    Value(Family),
    /// A condition: a part that is one may, or a true one.
    Condition,
    /// A clause that can be left out.
    Optional,
    /// A list; all but one of its parts can be left out.
    List,
}

/// A part of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    role: Role,
    text: Text,
    parts: Vec<Phrase>,
}

/// Text with `{0}`, `{1}` and so on where the parts stand.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Text {
    Same(String),
    Each([String; 3]),
    Joined(&'static str),
}

impl Phrase {
    /// Text that is the same in every dialect.
    pub fn word(text: impl Into<String>) -> Phrase {
        Phrase::new(Role::Fixed, text, Vec::new())
    }

    /// Nothing.
    pub fn nothing() -> Phrase {
        Phrase::word("")
    }

    /// Text of a role around parts.
    pub fn new(role: Role, text: impl Into<String>, parts: Vec<Phrase>) -> Phrase {
        Phrase { role, text: Text::Same(text.into()), parts }
    }

    /// Text for each of the dialects around parts.
    pub fn each(role: Role, texts: [&str; 3], parts: Vec<Phrase>) -> Phrase {
        Phrase { role, text: Text::Each(texts.map(str::to_string)), parts }
    }

    /// Parts with a separator, of which some may be left out.
    pub fn list(separator: &'static str, parts: Vec<Phrase>) -> Phrase {
        Phrase { role: Role::List, text: Text::Joined(separator), parts }
    }

    /// Parts with a separator, all of which are needed.
    pub fn all_of(separator: &'static str, parts: Vec<Phrase>) -> Phrase {
        Phrase { role: Role::Fixed, text: Text::Joined(separator), parts }
    }

    /// The phrase as a clause that can be left out.
    pub fn optional(self) -> Phrase {
        Phrase::new(Role::Optional, "{0}", vec![self])
    }

    /// The text in a dialect.
    pub fn render(&self, dialect: Dialect) -> String {
        let mut text = String::new();
        self.write(dialect, &mut text);
        text
    }

    fn write(&self, dialect: Dialect, to: &mut String) {
        let text = match &self.text {
            Text::Same(text) => text,
            Text::Each(texts) => &texts[dialect as usize],
            Text::Joined(separator) => {
                for (number, part) in self.parts.iter().enumerate() {
                    if number > 0 {
                        to.push_str(separator);
                    }
                    part.write(dialect, to);
                }
                return;
            }
        };
        let mut rest = text.as_str();
        while let Some(open) = rest.find('{') {
            to.push_str(&rest[..open]);
            let close = rest[open..].find('}').map(|length| open + length);
            let part = close.and_then(|close| {
                let number: usize = rest[open + 1..close].parse().ok()?;
                Some((close, self.parts.get(number)?))
            });
            match part {
                Some((close, part)) => {
                    part.write(dialect, to);
                    rest = &rest[close + 1..];
                }
                None => {
                    to.push('{');
                    rest = &rest[open + 1..];
                }
            }
        }
        to.push_str(rest);
    }

    /// Every phrase that is one step smaller, larger steps first.
    pub fn smaller(&self) -> Vec<Phrase> {
        let mut found = self.in_its_place();
        if self.role == Role::List && self.parts.len() > 1 {
            for left_out in 0..self.parts.len() {
                let mut fewer = self.clone();
                fewer.parts.remove(left_out);
                found.push(fewer);
            }
        }
        for (number, part) in self.parts.iter().enumerate() {
            for smaller in part.smaller() {
                let mut whole = self.clone();
                whole.parts[number] = smaller;
                found.push(whole);
            }
        }
        found
    }

    /// What may stand in place of the whole phrase.
    fn in_its_place(&self) -> Vec<Phrase> {
        let mut found = Vec::new();
        match self.role {
            Role::Optional if !self.parts.is_empty() => found.push(Phrase::nothing()),
            Role::Value(family) if !self.parts.is_empty() => {
                found.push(family.simplest());
                self.nearest(self.role, &mut found);
            }
            Role::Condition if !self.parts.is_empty() => {
                found.push(Phrase::new(Role::Condition, "1 = 1", Vec::new()));
                self.nearest(self.role, &mut found);
            }
            _ => {}
        }
        found
    }

    /// The parts of a role that stand in no other such part.
    fn nearest(&self, role: Role, found: &mut Vec<Phrase>) {
        for part in &self.parts {
            match part.role == role {
                true => found.push(part.clone()),
                false => part.nearest(role, found),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str, parts: Vec<Phrase>) -> Phrase {
        Phrase::new(Role::Condition, text, parts)
    }

    #[test]
    fn a_phrase_is_written_in_each_dialect() {
        let a = Phrase::word("'{\"k\"}'");
        let both = Phrase::each(Role::Fixed, ["F({0})", "{0}{0}", "{1}"], vec![a.clone(), a]);
        assert_eq!(both.render(Dialect::Lockstep), "F('{\"k\"}')");
        assert_eq!(both.render(Dialect::Sqlite), "'{\"k\"}''{\"k\"}'");
        assert_eq!(both.render(Dialect::Postgres), "'{\"k\"}'");
    }

    #[test]
    fn smaller_phrases_lose_clauses_operands_and_elements() {
        let both = condition(
            "({0} AND {1})",
            vec![condition("a", Vec::new()), condition("b", Vec::new())],
        );
        let clause = Phrase::new(Role::Fixed, " WHERE {0}", vec![both]).optional();
        let list = Phrase::list(", ", vec![Phrase::word("x"), Phrase::word("y")]);
        let whole = Phrase::new(Role::Fixed, "SELECT {0}{1}", vec![list, clause]);
        let mut texts: Vec<String> =
            whole.smaller().iter().map(|p| p.render(Dialect::Lockstep)).collect();
        texts.sort();
        let expected = [
            "SELECT x WHERE (a AND b)",
            "SELECT x, y",
            "SELECT x, y WHERE 1 = 1",
            "SELECT x, y WHERE a",
            "SELECT x, y WHERE b",
            "SELECT y WHERE (a AND b)",
        ];
        assert_eq!(texts, expected);
    }
}
