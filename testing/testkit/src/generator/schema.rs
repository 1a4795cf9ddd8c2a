//! Tables of all types, replicated or partitioned on one of two columns, indexes and views.

use super::{Family, Generator, Reference, Step};

/// A table that the script creates.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    /// The partitioning column; none for a replicated table.
    pub(super) partition: Option<usize>,
    /// The primary key's columns, if it has one.
    pub(super) key: Vec<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) family: Family,
    sql_type: &'static str,
    pub(super) required: bool,
}

const TYPES: [(&str, Family); 9] = [
    ("TINYINT", Family::Integer),
    ("SMALLINT", Family::Integer),
    ("INTEGER", Family::Integer),
    ("BIGINT", Family::Integer),
    ("FLOAT", Family::Float),
    ("DECIMAL", Family::Decimal),
    ("VARCHAR(12)", Family::Text),
    ("TIMESTAMP", Family::Timestamp),
    ("VARBINARY(6)", Family::Bytes),
];

impl Table {
    /// The columns, named through an alias or bare.
    pub(super) fn references(&self, alias: &str) -> Vec<Reference> {
        let dot = if alias.is_empty() { "" } else { "." };
        let columns = self.columns.iter();
        columns
            .map(|c| Reference { text: format!("{alias}{dot}{}", c.name), family: c.family })
            .collect()
    }
}

impl Generator {
    /// The DDL. Every table has ID and K, either of which it may be partitioned on.
    pub(super) fn schema(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for number in 0..self.random.between(2, 4) {
            let table = self.table(format!("T{number}"), &mut steps);
            self.indexes(&table, &mut steps);
            self.tables.push(table);
        }
        for number in 0..self.tables.len() {
            if self.random.chance(2, 3) {
                let body = self.view_body(number);
                self.view(format!("V{number}"), body, &mut steps);
            }
        }
        if self.random.chance(1, 2) {
            let body = self.joined_view_body();
            self.view("VJ".to_string(), body, &mut steps);
        }
        steps
    }

    fn table(&mut self, name: String, steps: &mut Vec<Step>) -> Table {
        let column = |name: &str, (sql_type, family): (&'static str, Family), required| Column {
            name: name.to_string(),
            family,
            sql_type,
            required,
        };
        let k = *self.pick(&[TYPES[2], TYPES[3], TYPES[6]]);
        let mut columns = vec![column("ID", TYPES[2], true), column("K", k, true)];
        for name in ["A", "B", "C", "D"].iter().take(self.random.between(2, 4) as usize) {
            let of_type = *self.pick(&TYPES);
            columns.push(column(name, of_type, false));
        }
        let partition = [None, Some(0), Some(1)][self.random.below(3) as usize];
        let key = match (self.random.below(3), partition) {
            (0, _) => Vec::new(),
            (1, Some(0) | None) => vec![0],
            _ => vec![1, 0],
        };
        let mut parts: Vec<String> = columns
            .iter()
            .map(|c| {
                format!("{} {}{}", c.name, c.sql_type, if c.required { " NOT NULL" } else { "" })
            })
            .collect();
        if !key.is_empty() {
            let key: Vec<&str> = key.iter().map(|c| columns[*c].name.as_str()).collect();
            parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
        }
        steps.push(Step::Change(format!("CREATE TABLE {name} ({})", parts.join(", "))));
        if let Some(column) = partition {
            let column = &columns[column].name;
            steps.push(Step::Change(format!("PARTITION TABLE {name} ON COLUMN {column}")));
        }
        Table { name, columns, partition, key }
    }

    fn indexes(&mut self, table: &Table, steps: &mut Vec<Step>) {
        for number in 0..self.random.below(3) {
            let first = self.pick(&table.columns).name.clone();
            let second = self.pick(&table.columns).name.clone();
            let keys = if first == second { first } else { format!("{first}, {second}") };
            let condition = match self.random.chance(1, 5) {
                true => format!(" WHERE {} IS NOT NULL", self.pick(&table.columns).name),
                false => String::new(),
            };
            let name = &table.name;
            steps.push(Step::Change(format!(
                "CREATE INDEX I{number}_{name} ON {name} ({keys}){condition}"
            )));
        }
    }

    fn view(&mut self, name: String, body: String, steps: &mut Vec<Step>) {
        steps.push(Step::Change(format!("CREATE VIEW {name} AS {body}")));
        self.views.push((name, body));
    }

    fn view_body(&mut self, table: usize) -> String {
        let table = self.tables[table].clone();
        let references = table.references("");
        let groups = self.random.below(3) as usize;
        let (groups, rest) = references.split_at(groups);
        let mut items: Vec<String> =
            groups.iter().enumerate().map(|(n, g)| format!("{} AS G{n}", g.text)).collect();
        items.push("COUNT(*) AS N".to_string());
        for (number, of) in rest.iter().enumerate() {
            let functions =
                ["COUNT", "MIN", "MAX", if of.family.is_number() { "SUM" } else { "MAX" }];
            items.push(format!("{}({}) AS V{number}", self.pick(&functions), of.text));
        }
        let condition = match self.random.chance(1, 3) {
            true => format!(" WHERE {}", self.simple_condition(&references)),
            false => String::new(),
        };
        let groups: Vec<&str> = groups.iter().map(|g| g.text.as_str()).collect();
        let group = match groups.is_empty() {
            true => String::new(),
            false => format!(" GROUP BY {}", groups.join(", ")),
        };
        format!("SELECT {} FROM {}{condition}{group}", items.join(", "), table.name)
    }

    fn joined_view_body(&mut self) -> String {
        let (left, right) = (self.tables[0].clone(), self.tables[1].clone());
        let group = self.pick(&left.columns).name.clone();
        let of = self.pick(&right.columns).name.clone();
        let function = *self.pick(&["COUNT", "MIN", "MAX"]);
        let on = *self.pick(&["ID", "ID", "K"]);
        format!(
            "SELECT l.{group} AS G, COUNT(*) AS N, {function}(r.{of}) AS V FROM {} l JOIN {} r ON \
             l.{on} = r.{on} GROUP BY l.{group}",
            left.name, right.name
        )
    }
}
