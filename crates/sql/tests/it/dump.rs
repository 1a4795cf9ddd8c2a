//! Trees as compact s-expressions, made from what `{:?}` prints.
//!
//! Fields that are none, false or empty are left out, and so are positions, unless asked for.

/// A value as `{:?}` prints it.
enum Node {
    /// A number, a string in quotes, a unit variant.
    Atom(String),
    /// `Name(a, b)`, `Name { field: a }`, `[a, b]` or `(a, b)`.
    Composite(String, Vec<(String, Node)>),
}

/// How a tree is shown.
pub fn dump(debug: &str, spans: bool) -> String {
    let mut reader = Reader { rest: debug };
    let node = reader.node();
    let mut out = String::new();
    write(&simplify(node, spans), 0, &mut out);
    out
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn blank(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, text: &str) -> bool {
        self.blank();
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> String {
        self.blank();
        let end = if self.rest.starts_with('"') {
            let mut escaped = false;
            let close = self.rest.char_indices().skip(1).find(|&(_, ch)| {
                let found = ch == '"' && !escaped;
                escaped = ch == '\\' && !escaped;
                found
            });
            close.expect("a string ends").0 + 1
        } else {
            let ends = |ch: char| !ch.is_alphanumeric() && ch != '_' && ch != '-';
            self.rest.find(ends).unwrap_or(self.rest.len())
        };
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_string()
    }

    fn node(&mut self) -> Node {
        if self.eat("[") {
            return Node::Composite("list".to_string(), self.elements("]", false));
        }
        let name = self.word();
        if self.eat("{") {
            return Node::Composite(name, self.elements("}", true));
        }
        match self.eat("(") {
            true => Node::Composite(name, self.elements(")", false)),
            false => Node::Atom(name),
        }
    }

    fn elements(&mut self, close: &str, named: bool) -> Vec<(String, Node)> {
        let mut elements = Vec::new();
        while !self.eat(close) {
            let mut field = String::new();
            if named {
                field = self.word();
                assert!(self.eat(":"), "a colon before {:?}", self.rest);
            }
            elements.push((field, self.node()));
            self.eat(",");
        }
        elements
    }
}

/// Leaves out what says nothing, and names without their trappings.
fn simplify(node: Node, spans: bool) -> Node {
    let Node::Composite(name, fields) = node else { return node };
    let mut position = String::new();
    let mut kept = Vec::new();
    for (field, value) in fields {
        if field == "span" && spans {
            position = place(&value);
            continue;
        }
        let skipped = matches!(field.as_str(), "span" | "operator_span" | "text" | "quoted");
        let is_name = matches!(name.as_str(), "Name" | "CaseName");
        let value = simplify(value, spans);
        let empty = match &value {
            Node::Atom(atom) => matches!(atom.as_str(), "None" | "false"),
            Node::Composite(name, fields) => {
                (name == "list" || name == "LimitClause") && fields.is_empty()
            }
        };
        let position = matches!(&value, Node::Composite(name, _) if name == "Span") && !spans;
        if !is_name && (skipped || position || (empty && !field.is_empty())) {
            continue;
        }
        kept.push((field, value));
    }
    reduce(name, kept, position)
}

/// `Some(x)` and wrappers of one field become what they hold.
fn reduce(name: String, mut fields: Vec<(String, Node)>, position: String) -> Node {
    let wrapper = matches!(name.as_str(), "Some" | "Column" | "ColumnName" | "Function");
    if wrapper && fields.len() == 1 {
        return fields.remove(0).1;
    }
    if matches!(name.as_str(), "Name" | "CaseName") {
        let mut text = String::new();
        let mut quoted = name == "CaseName";
        for (field, value) in &fields {
            match value {
                Node::Atom(atom) if field == "text" => text = atom.clone(),
                Node::Atom(atom) if field == "quoted" => quoted = atom == "true",
                _ => {}
            }
        }
        let shown = if quoted { text } else { text.trim_matches('"').to_string() };
        return Node::Atom(format!("{shown}{position}"));
    }
    if name == "Expression" && fields.iter().any(|(field, _)| field == "kind") {
        let kind = fields.into_iter().find(|(field, _)| field == "kind");
        return match kind.expect("an expression has a kind").1 {
            Node::Atom(atom) => Node::Atom(format!("{atom}{position}")),
            Node::Composite(name, fields) => Node::Composite(format!("{name}{position}"), fields),
        };
    }
    Node::Composite(format!("{name}{position}"), fields)
}

/// `@line:column+length`
fn place(span: &Node) -> String {
    let Node::Composite(_, fields) = span else { return String::new() };
    let number = |wanted: &str| match fields.iter().find(|(field, _)| field == wanted) {
        Some((_, Node::Atom(atom))) => atom.clone(),
        _ => String::new(),
    };
    format!("@{}:{}+{}", number("line"), number("column"), number("length"))
}

fn flat(node: &Node) -> String {
    match node {
        Node::Atom(atom) => atom.clone(),
        Node::Composite(name, fields) => {
            let mut out = match name.as_str() {
                "list" => "[".to_string(),
                name => format!("({name}"),
            };
            for (index, (field, value)) in fields.iter().enumerate() {
                if index > 0 || name != "list" {
                    out.push(' ');
                }
                if !field.is_empty() {
                    out.push_str(&format!("{field}="));
                }
                out.push_str(&flat(value));
            }
            out.push(if name == "list" { ']' } else { ')' });
            out
        }
    }
}

/// On one line if it fits, else a line for each field.
fn write(node: &Node, indent: usize, out: &mut String) {
    let line = flat(node);
    let Node::Composite(name, fields) = node else {
        out.push_str(&line);
        return;
    };
    if line.len() + indent <= 90 {
        out.push_str(&line);
        return;
    }
    out.push_str(if name == "list" { "[" } else { "(" });
    if name != "list" {
        out.push_str(name);
    }
    for (field, value) in fields {
        out.push('\n');
        out.push_str(&" ".repeat(indent + 1));
        let mut deeper = indent + 1;
        if !field.is_empty() {
            out.push_str(&format!("{field}="));
            deeper += 1;
        }
        write(value, deeper, out);
    }
    out.push(if name == "list" { ']' } else { ')' });
}
