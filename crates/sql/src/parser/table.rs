//! CREATE TABLE and CREATE INDEX, with columns, constraints and TTL.

use super::expression::literal;
use super::{Parsed, Parser};
use crate::ast::{
    ColumnConstraint, ColumnConstraintKind, ColumnDefinition, ConstraintKind, CreateIndex,
    CreateTable, Expression, ExpressionKind, LimitPartitionRows, Literal, Name, TableConstraint,
    TtlClause, TtlUnit, UnaryOperator, Uniqueness,
};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// What stands between the parentheses of CREATE TABLE.
#[derive(Default)]
pub(super) struct TableElements {
    pub(super) columns: Vec<ColumnDefinition>,
    pub(super) constraints: Vec<TableConstraint>,
    pub(super) limit_rows: Option<LimitPartitionRows>,
}

impl Parser<'_> {
    /// CREATE TABLE.
    pub(super) fn create_table(&mut self) -> Parsed<CreateTable> {
        self.advance();
        self.advance();
        let name = self.name("a table name")?;
        let mut export = None;
        while export.is_none() && self.at_export_clause() {
            export = Some(self.export_clause()?);
        }
        let TableElements { columns, constraints, limit_rows } = self.table_elements()?;
        let ttl = match self.at_keyword(Keyword::Using) {
            true => Some(self.ttl_clause()?),
            false => None,
        };
        Ok(CreateTable { name, export, columns, constraints, limit_rows, ttl })
    }

    /// `(column or constraint, ...)`
    pub(super) fn table_elements(&mut self) -> Parsed<TableElements> {
        let mut elements = TableElements::default();
        self.require(TokenKind::LeftParenthesis)?;
        loop {
            if elements.limit_rows.is_none() && self.at_named_limit() {
                elements.limit_rows = Some(self.limit_partition_rows()?);
            } else if self.at_table_constraint() {
                elements.constraints.push(self.table_constraint()?);
            } else if elements.limit_rows.is_none()
                && self.peek_keyword() == Keyword::Limit
                && self.keyword_ahead(1) == Keyword::Partition
            {
                elements.limit_rows = Some(self.limit_partition_rows()?);
            } else {
                elements.columns.push(self.column_definition()?);
            }
            let most = self.limits.columns;
            self.check_count(elements.columns.len(), "columns", "columns", most)?;
            self.check_count(elements.constraints.len(), "constraints", "columns", most)?;
            // Published schemas have a comma after the last element, which VoltDB takes.
            if !self.eat(TokenKind::Comma) || self.peek() == TokenKind::RightParenthesis {
                break;
            }
        }
        self.require(TokenKind::RightParenthesis)?;
        Ok(elements)
    }

    /// `name type [DEFAULT v] [constraint ...]`
    pub(super) fn column_definition(&mut self) -> Parsed<ColumnDefinition> {
        let name = self.name("a column name")?;
        let start = name.span;
        let data_type = self.data_type()?;
        let default = match self.eat_keyword(Keyword::Default) {
            true => Some(self.default_value()?),
            false => None,
        };
        let mut constraints = Vec::new();
        while let Some(constraint) = self.column_constraint()? {
            constraints.push(constraint);
        }
        Ok(ColumnDefinition { name, data_type, default, constraints, span: self.since(start) })
    }

    /// A literal, signed or not, NULL, or a value that the server knows (NOW, USER).
    pub(super) fn default_value(&mut self) -> Parsed<Expression> {
        let token = self.token();
        match token.kind {
            TokenKind::Minus | TokenKind::Plus
                if matches!(self.peek_ahead(1), TokenKind::Number | TokenKind::Hex) =>
            {
                self.advance();
                let operator = match token.kind {
                    TokenKind::Minus => UnaryOperator::Minus,
                    _ => UnaryOperator::Plus,
                };
                let operand = Box::new(self.operators(super::expression::Binding::Sign)?);
                let kind = ExpressionKind::Unary { operator, operand };
                Ok(Expression { kind, span: self.since(token.span) })
            }
            TokenKind::Number | TokenKind::String | TokenKind::Hex => {
                self.operators(super::expression::Binding::Sign)
            }
            TokenKind::Word(Keyword::Null) => {
                self.advance();
                Ok(literal(Literal::Null, token.span))
            }
            TokenKind::Word(Keyword::True | Keyword::False) => {
                self.operators(super::expression::Binding::Sign)
            }
            TokenKind::Word(Keyword::Timestamp | Keyword::Date)
                if self.peek_ahead(1) == TokenKind::String =>
            {
                self.operators(super::expression::Binding::Sign)
            }
            TokenKind::Word(_) if self.is_server_value() => {
                let value = self.bare_function()?;
                if self.eat(TokenKind::LeftParenthesis) {
                    self.require(TokenKind::RightParenthesis)?;
                }
                Ok(value)
            }
            _ => Err(self.unexpected_instead_of("a constant, NULL or NOW")),
        }
    }

    /// Whether the current word is a value that the server supplies as a default.
    fn is_server_value(&self) -> bool {
        let word = self.source(self.token().span);
        let known = [
            "NOW",
            "CURRENT_TIMESTAMP",
            "USER",
            "CURRENT_USER",
            "SESSION_USER",
            "SYSTEM_USER",
            "CURRENT_ROLE",
        ];
        known.iter().any(|known| word.eq_ignore_ascii_case(known))
    }

    /// The constraint after a column, if one stands here.
    fn column_constraint(&mut self) -> Parsed<Option<ColumnConstraint>> {
        let start = self.token().span;
        let name = self.constraint_name()?;
        let kind = if self.eat_keywords(Keyword::Not, Keyword::Null) {
            ColumnConstraintKind::NotNull
        } else if self.eat_keyword(Keyword::Null) {
            ColumnConstraintKind::Null
        } else if self.eat_keyword(Keyword::Primary) {
            self.require_keyword(Keyword::Key)?;
            ColumnConstraintKind::PrimaryKey
        } else if self.eat_keyword(Keyword::Unique) {
            ColumnConstraintKind::Unique
        } else if self.eat_keyword(Keyword::Assumeunique) {
            ColumnConstraintKind::AssumeUnique
        } else if self.eat_keyword(Keyword::Check) {
            ColumnConstraintKind::Check(Box::new(self.check_condition()?))
        } else if self.eat_keyword(Keyword::Generated) {
            self.identity()?;
            ColumnConstraintKind::Identity
        } else if self.eat_keyword(Keyword::References) {
            let table = self.name("a table name")?;
            ColumnConstraintKind::References(table, self.optional_names()?)
        } else if name.is_some() {
            return Err(self.unexpected());
        } else {
            return Ok(None);
        };
        Ok(Some(ColumnConstraint { name, kind, span: self.since(start) }))
    }

    /// `{ALWAYS | BY DEFAULT} AS IDENTITY [(options)]` after GENERATED.
    fn identity(&mut self) -> Parsed<()> {
        if !self.eat_keyword(Keyword::Always) {
            self.require_keywords(&[Keyword::By, Keyword::Default])?;
        }
        self.require_keywords(&[Keyword::As, Keyword::Identity])?;
        if self.eat(TokenKind::LeftParenthesis) {
            // START WITH 1, INCREMENT BY 1 and the like: read past.
            while !matches!(
                self.peek(),
                TokenKind::RightParenthesis | TokenKind::End | TokenKind::Semicolon
            ) {
                self.advance();
            }
            self.require(TokenKind::RightParenthesis)?;
        }
        Ok(())
    }

    fn constraint_name(&mut self) -> Parsed<Option<Name>> {
        match self.eat_keyword(Keyword::Constraint) {
            true => Ok(Some(self.name("a constraint name")?)),
            false => Ok(None),
        }
    }

    /// `(condition)`
    fn check_condition(&mut self) -> Parsed<Expression> {
        self.require(TokenKind::LeftParenthesis)?;
        let condition = self.expression()?;
        self.require(TokenKind::RightParenthesis)?;
        Ok(condition)
    }

    /// Whether a constraint of the table begins here, rather than a column.
    pub(super) fn at_table_constraint(&self) -> bool {
        match self.peek_keyword() {
            Keyword::Constraint
            | Keyword::Primary
            | Keyword::Unique
            | Keyword::Check
            | Keyword::Foreign => true,
            Keyword::Assumeunique => self.peek_ahead(1) == TokenKind::LeftParenthesis,
            _ => false,
        }
    }

    /// `[CONSTRAINT name] {PRIMARY KEY | UNIQUE | ASSUMEUNIQUE | CHECK | FOREIGN KEY} (...)`
    pub(super) fn table_constraint(&mut self) -> Parsed<TableConstraint> {
        let start = self.token().span;
        let name = self.constraint_name()?;
        let kind = if self.eat_keyword(Keyword::Primary) {
            self.require_keyword(Keyword::Key)?;
            ConstraintKind::PrimaryKey(self.key_expressions()?)
        } else if self.eat_keyword(Keyword::Unique) {
            ConstraintKind::Unique(self.key_expressions()?)
        } else if self.eat_keyword(Keyword::Assumeunique) {
            ConstraintKind::AssumeUnique(self.key_expressions()?)
        } else if self.eat_keyword(Keyword::Check) {
            ConstraintKind::Check(Box::new(self.check_condition()?))
        } else if self.eat_keyword(Keyword::Foreign) {
            self.require_keyword(Keyword::Key)?;
            let columns = self.names_in_parentheses()?;
            self.require_keyword(Keyword::References)?;
            let table = self.name("a table name")?;
            ConstraintKind::ForeignKey { columns, table, referenced: self.optional_names()? }
        } else {
            return Err(self.unexpected());
        };
        Ok(TableConstraint { name, kind, span: self.since(start) })
    }

    fn key_expressions(&mut self) -> Parsed<Vec<Expression>> {
        self.list_in_parentheses("columns of a key", Parser::expression)
    }

    /// Whether `CONSTRAINT name LIMIT PARTITION` stands here.
    pub(super) fn at_named_limit(&self) -> bool {
        self.peek_keyword() == Keyword::Constraint
            && self.keyword_ahead(2) == Keyword::Limit
            && self.keyword_ahead(3) == Keyword::Partition
    }

    /// `[CONSTRAINT name] LIMIT PARTITION ROWS n [EXECUTE (DELETE ...)]`
    pub(super) fn limit_partition_rows(&mut self) -> Parsed<LimitPartitionRows> {
        let start = self.token().span;
        let name = self.constraint_name()?;
        self.require_keywords(&[Keyword::Limit, Keyword::Partition, Keyword::Rows])?;
        let rows = self.unsigned("a number of rows")?;
        let mut execute = None;
        let mut execute_text = String::new();
        if self.eat_keyword(Keyword::Execute) {
            self.require(TokenKind::LeftParenthesis)?;
            let begin = self.token().span;
            if !self.at_keyword(Keyword::Delete) {
                return Err(self.unexpected());
            }
            execute = Some(Box::new(self.delete()?));
            execute_text = self.source(self.since(begin)).to_string();
            self.require(TokenKind::RightParenthesis)?;
        }
        Ok(LimitPartitionRows { name, rows, execute, execute_text, span: self.since(start) })
    }

    /// `USING TTL n [unit] ON COLUMN c [BATCH_SIZE n] [MAX_FREQUENCY n]`
    pub(super) fn ttl_clause(&mut self) -> Parsed<TtlClause> {
        let start = self.token().span;
        self.require_keywords(&[Keyword::Using, Keyword::Ttl])?;
        let value = self.unsigned("a number")?;
        let unit = if self.eat_keyword(Keyword::Minutes) {
            TtlUnit::Minutes
        } else if self.eat_keyword(Keyword::Hours) {
            TtlUnit::Hours
        } else if self.eat_keyword(Keyword::Days) {
            TtlUnit::Days
        } else {
            self.eat_keyword(Keyword::Seconds);
            TtlUnit::Seconds
        };
        self.require_keyword(Keyword::On)?;
        self.require_keyword(Keyword::Column)?;
        let column = self.name("a column name")?;
        let (mut batch_size, mut max_frequency) = (None, None);
        loop {
            if batch_size.is_none() && self.eat_keyword(Keyword::BatchSize) {
                batch_size = Some(self.positive("a number of rows above 0")?);
            } else if max_frequency.is_none() && self.eat_keyword(Keyword::MaxFrequency) {
                max_frequency = Some(self.positive("a number above 0")?);
            } else {
                break;
            }
        }
        let span = self.since(start);
        Ok(TtlClause { value, unit, column, batch_size, max_frequency, span })
    }

    /// `CREATE [UNIQUE | ASSUMEUNIQUE] INDEX i ON t (key [ASC], ...) [WHERE condition]`
    /// `CREATE GLOBAL [UNIQUE] INDEX i ON t (keys) [INCLUDE (columns)]`
    pub(super) fn create_index(&mut self) -> Parsed<CreateIndex> {
        self.advance();
        let global = self.eat_keyword(Keyword::Global);
        let uniqueness = if self.eat_keyword(Keyword::Unique) {
            Uniqueness::Unique
        } else if self.eat_keyword(Keyword::Assumeunique) {
            Uniqueness::AssumeUnique
        } else {
            Uniqueness::None
        };
        self.require_keyword(Keyword::Index)?;
        let name = self.name("an index name")?;
        self.require_keyword(Keyword::On)?;
        let table = self.name("a table name")?;
        let keys = self.list_in_parentheses("columns of a key", |parser| {
            let key = parser.expression()?;
            // All indexes ascend.
            parser.eat_keyword(Keyword::Asc);
            Ok(key)
        })?;
        let included = match global && self.eat_keyword(Keyword::Include) {
            true => self.list_in_parentheses("included columns", |p| p.name("a column name"))?,
            false => Vec::new(),
        };
        let selection = self.optional_clause(Keyword::Where)?;
        Ok(CreateIndex { uniqueness, name, table, keys, selection, global, included })
    }
}
