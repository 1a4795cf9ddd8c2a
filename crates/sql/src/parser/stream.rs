//! CREATE STREAM, and the EXPORT and MIGRATE clauses that tables and streams share.

use super::table::TableElements;
use super::{Parsed, Parser};
use crate::ast::{CreateStream, ExportAction, ExportClause, ExportDestination, ExportVerb};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// `CREATE STREAM s [PARTITION ON COLUMN c] [EXPORT TO ...] (columns)`
    pub(super) fn create_stream(&mut self) -> Parsed<CreateStream> {
        self.advance();
        self.advance();
        let name = self.name("a stream name")?;
        let (mut partition_column, mut export) = (None, None);
        loop {
            if partition_column.is_none() && self.eat_keyword(Keyword::Partition) {
                self.require_keywords(&[Keyword::On, Keyword::Column])?;
                partition_column = Some(self.name("a column name")?);
            } else if export.is_none() && self.at_export_clause() {
                export = Some(self.export_clause()?);
            } else {
                break;
            }
        }
        let TableElements { columns, constraints, .. } = self.table_elements()?;
        Ok(CreateStream { name, partition_column, export, columns, constraints })
    }

    /// Whether EXPORT TO or MIGRATE TO stands here.
    pub(super) fn at_export_clause(&mut self) -> bool {
        self.at_keyword(Keyword::Export) || self.at_keyword(Keyword::Migrate)
    }

    /// `{EXPORT | MIGRATE} TO {TARGET | TOPIC} x [ON action, ...] [WITH [KEY (..)] [VALUE (..)]]`
    pub(super) fn export_clause(&mut self) -> Parsed<ExportClause> {
        let start = self.token().span;
        let verb = match self.advance().kind {
            TokenKind::Word(Keyword::Migrate) => ExportVerb::Migrate,
            _ => ExportVerb::Export,
        };
        self.require_keyword(Keyword::To)?;
        let destination = if self.eat_keyword(Keyword::Topic) {
            ExportDestination::Topic(self.case_name("a topic")?)
        } else {
            self.require_keyword(Keyword::Target)?;
            ExportDestination::Target(self.case_name("a target")?)
        };
        let actions = match self.eat_keyword(Keyword::On) {
            true => self.list("actions", Parser::export_action)?,
            false => Vec::new(),
        };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        if self.eat_keyword(Keyword::With) {
            if self.eat_keyword(Keyword::Key) {
                key = self.names_in_parentheses()?;
            }
            if self.eat_keyword(Keyword::Value) {
                value = self.names_in_parentheses()?;
            }
            if key.is_empty() && value.is_empty() {
                return Err(self.unexpected());
            }
        }
        Ok(ExportClause { verb, destination, actions, key, value, span: self.since(start) })
    }

    fn export_action(&mut self) -> Parsed<ExportAction> {
        let actions = [
            (Keyword::Insert, ExportAction::Insert),
            (Keyword::Delete, ExportAction::Delete),
            (Keyword::UpdateOld, ExportAction::UpdateOld),
            (Keyword::UpdateNew, ExportAction::UpdateNew),
            (Keyword::Update, ExportAction::Update),
        ];
        for (keyword, action) in actions {
            if self.eat_keyword(keyword) {
                return Ok(action);
            }
        }
        Err(self.unexpected())
    }
}
