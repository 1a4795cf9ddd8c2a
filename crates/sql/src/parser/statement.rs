//! Which statement a text begins, and the small statements that need no module.

use super::{Parsed, Parser, QUERY_LEVELS};
use crate::ast::{
    CaseName, CreateRole, CreateView, Delete, DrTable, Drop, Insert, Name, ObjectKind,
    ParsedStatement, PartitionTable, SetOption, Statement, StatementKind, Update,
};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// A statement with its text.
    pub(super) fn parsed_statement(&mut self) -> Parsed<ParsedStatement> {
        let start = self.token().span;
        self.parameters = 0;
        self.tables = 0;
        let statement = self.statement()?;
        let span = self.since(start);
        if span.length > self.limits.statement_bytes {
            let what = format!("the statement is {} bytes long", span.length);
            let most = self.limits.statement_bytes;
            return Err(crate::SqlError::limit(what, "statement_bytes", most, start));
        }
        if statement.kind() == StatementKind::Ddl && self.parameters > 0 {
            return Err(self.refused_parameter(&statement));
        }
        let text = self.source(span).to_string();
        Ok(ParsedStatement { statement, text, span, parameter_count: self.parameters })
    }

    /// The refusal of the first `?` in a schema statement.
    fn refused_parameter(&self, statement: &Statement) -> crate::SqlError {
        let span = self.first_parameter;
        if let Statement::CreateView(view) = statement {
            let message = format!(
                "Materialized view \"{}\" contains placeholders (?), which are not allowed in the \
                 SELECT query for a view.",
                view.name.text
            );
            return crate::SqlError { message, span, expected: Vec::new(), found: None };
        }
        crate::SqlError {
            message: "unexpected token: ?".to_string(),
            span,
            expected: vec!["a constant: a schema statement takes no parameters".to_string()],
            found: Some("?".to_string()),
        }
    }

    /// Any statement.
    fn statement(&mut self) -> Parsed<Statement> {
        match self.peek_keyword() {
            Keyword::Create => self.create(),
            Keyword::Drop => self.drop_object(),
            Keyword::Alter => match self.keyword_ahead(1) {
                Keyword::Stream => Ok(Statement::AlterStream(Box::new(self.alter_stream()?))),
                Keyword::Task => Ok(Statement::AlterTask(Box::new(self.alter_task()?))),
                _ => Ok(Statement::AlterTable(Box::new(self.alter_table()?))),
            },
            Keyword::Partition => self.partition(),
            Keyword::Replicate => {
                self.advance();
                self.require_keyword(Keyword::Table)?;
                Ok(Statement::ReplicateTable(self.name("a table name")?))
            }
            Keyword::Dr => self.dr_table(),
            Keyword::Set => self.set_option(),
            Keyword::Explain => self.explain(),
            _ => self.query_or_dml(),
        }
    }

    /// What may stand in a procedure and after EXPLAIN.
    pub(super) fn query_or_dml(&mut self) -> Parsed<Statement> {
        match self.peek() {
            TokenKind::Word(Keyword::With) => self.behind_with(),
            TokenKind::Word(Keyword::Select | Keyword::Values) | TokenKind::LeftParenthesis => {
                Ok(Statement::Query(Box::new(self.query()?)))
            }
            TokenKind::Word(Keyword::Insert | Keyword::Upsert) => {
                Ok(Statement::Insert(Box::new(self.insert()?)))
            }
            TokenKind::Word(Keyword::Update) => Ok(Statement::Update(Box::new(self.update()?))),
            TokenKind::Word(Keyword::Delete) => Ok(Statement::Delete(Box::new(self.delete()?))),
            TokenKind::Word(Keyword::Truncate) => Ok(Statement::Truncate(self.truncate()?)),
            TokenKind::Word(Keyword::Migrate) => Ok(Statement::Migrate(Box::new(self.migrate()?))),
            _ => Err(self.unexpected_instead_of("a statement")),
        }
    }

    /// WITH in front of a query or of DML.
    fn behind_with(&mut self) -> Parsed<Statement> {
        let start = self.token().span;
        self.enter(QUERY_LEVELS)?;
        let with = Some(self.with()?);
        let statement = match self.peek_keyword() {
            Keyword::Insert | Keyword::Upsert => {
                Statement::Insert(Box::new(Insert { with, ..self.insert()? }))
            }
            Keyword::Update => Statement::Update(Box::new(Update { with, ..self.update()? })),
            Keyword::Delete => Statement::Delete(Box::new(Delete { with, ..self.delete()? })),
            _ => Statement::Query(Box::new(self.query_behind_with(with, start)?)),
        };
        self.leave(QUERY_LEVELS);
        Ok(statement)
    }

    /// `EXPLAIN [ANALYZE] [PLAN FOR] statement`
    fn explain(&mut self) -> Parsed<Statement> {
        self.advance();
        let analyze = self.eat_keyword(Keyword::Analyze);
        if self.eat_keyword(Keyword::Plan) {
            self.require_keyword(Keyword::For)?;
        }
        let statement = Box::new(self.query_or_dml()?);
        Ok(Statement::Explain { analyze, statement })
    }

    fn create(&mut self) -> Parsed<Statement> {
        match self.keyword_ahead(1) {
            Keyword::Table => Ok(Statement::CreateTable(Box::new(self.create_table()?))),
            Keyword::Unique | Keyword::Assumeunique | Keyword::Index | Keyword::Global => {
                Ok(Statement::CreateIndex(Box::new(self.create_index()?)))
            }
            Keyword::View => self.create_view(),
            Keyword::Stream => Ok(Statement::CreateStream(Box::new(self.create_stream()?))),
            Keyword::Procedure | Keyword::Directed | Keyword::Compound => {
                Ok(Statement::CreateProcedure(Box::new(self.create_procedure()?)))
            }
            Keyword::Function | Keyword::Aggregate => {
                Ok(Statement::CreateFunction(Box::new(self.create_function()?)))
            }
            Keyword::Role => self.create_role(),
            Keyword::Task => Ok(Statement::CreateTask(Box::new(self.create_task()?))),
            Keyword::Sequence => {
                self.advance();
                Err(self.not_supported("Sequences are"))
            }
            _ => {
                self.advance();
                Err(self.unexpected_instead_of(
                    "TABLE, INDEX, VIEW, STREAM, PROCEDURE, FUNCTION, ROLE or TASK",
                ))
            }
        }
    }

    /// `CREATE VIEW v [(columns)] AS query`
    fn create_view(&mut self) -> Parsed<Statement> {
        self.advance();
        self.advance();
        let name = self.name("a view name")?;
        let columns = self.optional_names()?;
        self.require_keyword(Keyword::As)?;
        let start = self.token().span;
        let query = Box::new(self.query()?);
        let query_text = self.source(self.since(start)).to_string();
        Ok(Statement::CreateView(Box::new(CreateView { name, columns, query, query_text })))
    }

    /// `CREATE ROLE r [WITH permission, ...]`
    fn create_role(&mut self) -> Parsed<Statement> {
        self.advance();
        self.advance();
        let name = self.name("a role name")?;
        let permissions = match self.eat_keyword(Keyword::With) {
            true => self.list("permissions", |parser| parser.name("a permission"))?,
            false => Vec::new(),
        };
        Ok(Statement::CreateRole(Box::new(CreateRole { name, permissions })))
    }

    /// `PARTITION TABLE t ON COLUMN c`, `PARTITION TABLE t ON COLUMNS (c, ...)`,
    /// `PARTITION PROCEDURE p ON TABLE ...`
    fn partition(&mut self) -> Parsed<Statement> {
        self.advance();
        if self.eat_keyword(Keyword::Procedure) {
            let statement = self.partition_procedure()?;
            return Ok(Statement::PartitionProcedure(Box::new(statement)));
        }
        self.require_keyword(Keyword::Table)?;
        let table = self.name("a table name")?;
        self.require_keyword(Keyword::On)?;
        let columns = self.partitioning_columns()?;
        Ok(Statement::PartitionTable(PartitionTable { table, columns }))
    }

    /// `COLUMN c`, `COLUMNS (c, ...)`
    pub(super) fn partitioning_columns(&mut self) -> Parsed<Vec<Name>> {
        if !self.eat_keyword(Keyword::Columns) {
            self.require_keyword(Keyword::Column)?;
            return Ok(vec![self.name("a column name")?]);
        }
        self.list_in_parentheses("columns", |parser| parser.name("a column name"))
    }

    /// `DR TABLE {t | *} [DISABLE]`
    fn dr_table(&mut self) -> Parsed<Statement> {
        self.advance();
        self.require_keyword(Keyword::Table)?;
        let table = match self.eat(TokenKind::Star) {
            true => None,
            false => Some(self.name("a table name")?),
        };
        let disable = self.eat_keyword(Keyword::Disable);
        Ok(Statement::DrTable(DrTable { table, disable }))
    }

    /// `SET name = value`
    fn set_option(&mut self) -> Parsed<Statement> {
        self.advance();
        let name = self.name("an option")?;
        self.require(TokenKind::Equal)?;
        let value = match self.peek() {
            TokenKind::Number => {
                let span = self.advance().span;
                CaseName { text: self.source(span).to_string(), span }
            }
            TokenKind::String => {
                let token = self.advance();
                CaseName { text: self.string_of(token), span: token.span }
            }
            _ => self.case_name("a value")?,
        };
        Ok(Statement::Set(SetOption { name, value }))
    }

    /// `DROP kind name [IF EXISTS] [CASCADE]`; IF EXISTS may also stand before the name.
    fn drop_object(&mut self) -> Parsed<Statement> {
        self.advance();
        let kind = match self.peek_keyword() {
            Keyword::Table => ObjectKind::Table,
            Keyword::Index => ObjectKind::Index,
            Keyword::View => ObjectKind::View,
            Keyword::Stream => ObjectKind::Stream,
            Keyword::Procedure => ObjectKind::Procedure,
            Keyword::Function => ObjectKind::Function,
            Keyword::Aggregate if self.keyword_ahead(1) == Keyword::Function => {
                self.advance();
                ObjectKind::AggregateFunction
            }
            Keyword::Role => ObjectKind::Role,
            Keyword::Task => ObjectKind::Task,
            _ => {
                return Err(self.unexpected_instead_of(
                    "TABLE, INDEX, VIEW, STREAM, PROCEDURE, FUNCTION, ROLE or TASK",
                ));
            }
        };
        self.advance();
        let mut if_exists = self.eat_keywords(Keyword::If, Keyword::Exists);
        let name = match kind {
            ObjectKind::Procedure => self.dotted_name("a procedure name")?,
            _ => {
                let name = self.name("a name")?;
                CaseName { text: name.text, span: name.span }
            }
        };
        if_exists |= self.eat_keywords(Keyword::If, Keyword::Exists);
        let cascade = self.eat_keyword(Keyword::Cascade);
        if_exists |= cascade && self.eat_keywords(Keyword::If, Keyword::Exists);
        Ok(Statement::Drop(Box::new(Drop { kind, name, if_exists, cascade })))
    }
}
