//! Queries: joins of all kinds, derived tables, groups, windows, set operations, common tables.

use super::{Family, Generator, Reference, Step};

/// A SELECT without its ORDER BY.
struct Select {
    text: String,
    /// The output columns are C0, C1 and so on, of these families.
    families: Vec<Family>,
}

impl Generator {
    /// A query of any form.
    pub(super) fn query(&mut self) -> Step {
        self.aliases = 0;
        match self.random.below(12) {
            0 => self.set_operation(),
            1 => self.common_table(),
            2 => self.window(),
            _ => {
                let Select { text, families } = self.select(1);
                self.ordered(text, families.len())
            }
        }
    }

    /// Adds ORDER BY over all columns, or not, and then perhaps LIMIT and OFFSET.
    fn ordered(&mut self, mut sql: String, width: usize) -> Step {
        let ordered = self.random.chance(1, 3);
        if ordered {
            let first = self.random.below(width as u64) as usize;
            let keys: Vec<String> = (0..width)
                .map(|n| format!("C{}{}", (n + first) % width, self.pick(&["", " DESC"])))
                .collect();
            sql += &format!(" ORDER BY {}", keys.join(", "));
            if self.random.chance(1, 2) {
                sql += &format!(" LIMIT {}", self.random.below(7));
                if self.random.chance(1, 3) {
                    sql += &format!(" OFFSET {}", self.random.below(4));
                }
            }
        }
        Step::Query { sql, ordered }
    }

    /// What FROM names, and the columns that can be seen of it.
    pub(super) fn source(&mut self, depth: u32) -> (String, Vec<Reference>) {
        let (mut text, mut seen) = self.item(depth);
        for _ in 0..[0, 0, 1, 1, 2][self.random.below(5) as usize] {
            let (right, columns) = self.item(depth);
            let kind =
                *self.pick(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]);
            if kind == "CROSS JOIN" {
                text += &format!(" CROSS JOIN {right}");
            } else {
                let on = self.join_condition(&seen, &columns);
                text += &format!(" {kind} {right} ON {on}");
            }
            seen.extend(columns);
        }
        (text, seen)
    }

    fn join_condition(&mut self, left: &[Reference], right: &[Reference]) -> String {
        let one = self.pick(left).clone();
        let Some(other) = self.of_family(one.family, right) else {
            let other = self.pick(right).text.clone();
            return format!("{} IS NOT NULL AND {other} IS NOT NULL", one.text);
        };
        let comparison = *self.pick(&["=", "=", "=", "<", "<>"]);
        let mut on = format!("{} {comparison} {other}", one.text);
        if self.random.chance(1, 3) {
            on += &format!(" AND {}", self.condition(right, 1, false));
        }
        on
    }

    fn item(&mut self, depth: u32) -> (String, Vec<Reference>) {
        let alias = self.alias();
        if depth > 0 && self.random.chance(1, 5) {
            let Select { text, families } = self.select(depth - 1);
            let columns = families.iter().enumerate();
            let seen =
                columns.map(|(n, f)| Reference { text: format!("{alias}.C{n}"), family: *f });
            return (format!("({text}) {alias}"), seen.collect());
        }
        let tables = self.tables.len() as u64;
        let table = &self.tables[self.random.below(tables) as usize];
        (format!("{} {alias}", table.name), table.references(&alias))
    }

    fn select(&mut self, depth: u32) -> Select {
        let (from, seen) = self.source(depth);
        let condition = match self.random.chance(3, 5) {
            true => format!(" WHERE {}", self.condition(&seen, 2, depth > 0)),
            false => String::new(),
        };
        if self.random.chance(1, 3) {
            return self.grouped(&from, &seen, &condition);
        }
        let mut items: Vec<(String, Family)> = (0..self.random.between(1, 4))
            .map(|_| {
                let family = self.pick(&seen).family;
                (self.value(family, &seen, 1), family)
            })
            .collect();
        if depth > 0 && self.random.chance(1, 6) {
            items.push(self.scalar_subquery(&seen));
        }
        let distinct = if self.random.chance(1, 5) { "DISTINCT " } else { "" };
        let (list, families) = listed(items);
        Select { text: format!("SELECT {distinct}{list} FROM {from}{condition}"), families }
    }

    fn grouped(&mut self, from: &str, seen: &[Reference], condition: &str) -> Select {
        let mut groups: Vec<Reference> =
            (0..self.random.below(3)).map(|_| self.pick(seen).clone()).collect();
        groups.dedup_by(|a, b| a.text == b.text);
        let mut items: Vec<(String, Family)> =
            groups.iter().map(|g| (g.text.clone(), g.family)).collect();
        for _ in 0..self.random.between(1, 3) {
            items.push(self.aggregate(seen));
        }
        let mut tail = String::new();
        if !groups.is_empty() {
            let groups: Vec<&str> = groups.iter().map(|g| g.text.as_str()).collect();
            tail = format!(" GROUP BY {}", groups.join(", "));
            if self.random.chance(1, 3) {
                tail += &format!(" HAVING COUNT(*) {} 2", self.pick(&["<", "=", ">"]));
            }
        }
        let (list, families) = listed(items);
        Select { text: format!("SELECT {list} FROM {from}{condition}{tail}"), families }
    }

    fn aggregate(&mut self, seen: &[Reference]) -> (String, Family) {
        let Reference { text, family } = self.pick(seen).clone();
        let distinct = *self.pick(&["", "", "DISTINCT "]);
        match self.random.below(5) {
            0 => ("COUNT(*)".to_string(), Family::Integer),
            1 => (format!("COUNT({distinct}{text})"), Family::Integer),
            2 | 3 if family.is_number() => {
                (format!("{}({distinct}{text})", self.pick(&["SUM", "SUM", "AVG"])), family)
            }
            _ => (format!("{}({text})", self.pick(&["MIN", "MAX"])), family),
        }
    }

    fn window(&mut self) -> Step {
        let (from, seen) = self.source(0);
        let shown = self.pick(&seen).clone();
        let partition = self.pick(&seen).text.clone();
        let order = self.of_family(Family::Integer, &seen).unwrap_or_else(|| partition.clone());
        let function = match self.random.below(5) {
            0 => "RANK()".to_string(),
            1 => "DENSE_RANK()".to_string(),
            2 => "COUNT(*)".to_string(),
            3 => format!("SUM({order})"),
            _ => format!("MAX({order})"),
        };
        let direction = *self.pick(&["", " DESC"]);
        // Rows that are peers may come in any order, so that a frame of rows is not tried here.
        let frames = ["", " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"];
        let frame = if function.contains("RANK") { "" } else { *self.pick(&frames) };
        let sql = format!(
            "SELECT {} AS C0, {function} OVER (PARTITION BY {partition} ORDER BY \
             {order}{direction}{frame}) AS C1 FROM {from}",
            shown.text,
        );
        Step::Query { sql, ordered: false }
    }

    /// One value of other rows, tied to the row by any condition.
    fn scalar_subquery(&mut self, over: &[Reference]) -> (String, Family) {
        let (from, inner) = self.source(0);
        let mut seen = inner.clone();
        seen.extend_from_slice(over);
        let condition = self.condition(&seen, 1, false);
        let (value, family) = self.aggregate(&inner);
        (format!("(SELECT {value} FROM {from} WHERE {condition})"), family)
    }

    fn set_operation(&mut self) -> Step {
        let families = [Family::Integer, *self.pick(&[Family::Text, Family::Integer])];
        let mut text = String::new();
        for number in 0..self.random.between(2, 3) {
            if number > 0 {
                let operators = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"];
                text += &format!(" {} ", self.pick(&operators));
            }
            let (from, seen) = self.source(0);
            let items = families.map(|family| (self.value(family, &seen, 1), family));
            let (list, _) = listed(items.to_vec());
            let condition = self.condition(&seen, 1, false);
            text += &format!("SELECT {list} FROM {from} WHERE {condition}");
        }
        self.ordered(text, families.len())
    }

    fn common_table(&mut self) -> Step {
        let Select { text, .. } = self.select(0);
        let sql = format!(
            "WITH w AS ({text}) SELECT a.C0, COUNT(*) AS C1 FROM w a JOIN w b ON a.C0 = b.C0 \
             GROUP BY a.C0"
        );
        Step::Query { sql, ordered: false }
    }
}

/// A select list with aliases C0, C1 and so on.
fn listed(items: Vec<(String, Family)>) -> (String, Vec<Family>) {
    let list: Vec<String> =
        items.iter().enumerate().map(|(n, (item, _))| format!("{item} AS C{n}")).collect();
    (list.join(", "), items.into_iter().map(|(_, family)| family).collect())
}
