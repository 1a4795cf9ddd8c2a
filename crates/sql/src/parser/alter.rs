//! ALTER TABLE and ALTER STREAM.

use super::{Parsed, Parser};
use crate::ast::{AlterAction, AlterStream, AlterTable, ColumnChange};
use crate::keyword::Keyword;

impl Parser<'_> {
    /// ALTER TABLE.
    pub(super) fn alter_table(&mut self) -> Parsed<AlterTable> {
        self.advance();
        self.require_keyword(Keyword::Table)?;
        let table = self.name("a table name")?;
        let start = self.token().span;
        let action = self.alter_action()?;
        Ok(AlterTable { table, action, span: self.since(start) })
    }

    /// ALTER STREAM.
    pub(super) fn alter_stream(&mut self) -> Parsed<AlterStream> {
        self.advance();
        self.advance();
        let stream = self.name("a stream name")?;
        let start = self.token().span;
        let action = self.alter_action()?;
        Ok(AlterStream { stream, action, span: self.since(start) })
    }

    fn alter_action(&mut self) -> Parsed<AlterAction> {
        if self.eat_keyword(Keyword::Add) {
            return self.alter_add();
        }
        if self.eat_keyword(Keyword::Drop) {
            return self.alter_drop();
        }
        if self.eat_keyword(Keyword::Alter) {
            return self.alter_alter();
        }
        self.require_keyword(Keyword::Rename)?;
        if self.eat_keyword(Keyword::To) {
            return Ok(AlterAction::RenameTo(self.name("a table name")?));
        }
        self.optional_column_keyword();
        let column = self.name("a column name")?;
        self.require_keyword(Keyword::To)?;
        let to = self.name("a column name")?;
        Ok(AlterAction::RenameColumn { column, to })
    }

    /// Reads past COLUMN where it is not itself the column's name.
    fn optional_column_keyword(&mut self) {
        if self.peek_keyword() == Keyword::Column && self.is_name_ahead(1) {
            self.advance();
        }
    }

    fn alter_add(&mut self) -> Parsed<AlterAction> {
        if self.at_named_limit() {
            return Ok(AlterAction::AddLimitRows(self.limit_partition_rows()?));
        }
        if self.at_table_constraint() {
            return Ok(AlterAction::AddConstraint(self.table_constraint()?));
        }
        if self.at_keyword(Keyword::Using) {
            return Ok(AlterAction::AddTtl(self.ttl_clause()?));
        }
        if self.at_keyword(Keyword::Limit) && self.keyword_ahead(1) == Keyword::Partition {
            return Ok(AlterAction::AddLimitRows(self.limit_partition_rows()?));
        }
        self.optional_column_keyword();
        let column = self.column_definition()?;
        let before = match self.eat_keyword(Keyword::Before) {
            true => Some(self.name("a column name")?),
            false => None,
        };
        Ok(AlterAction::AddColumn { column, before })
    }

    fn alter_drop(&mut self) -> Parsed<AlterAction> {
        if self.eat_keyword(Keyword::Constraint) {
            return Ok(AlterAction::DropConstraint(self.name("a constraint name")?));
        }
        if self.eat_keyword(Keyword::Primary) {
            self.require_keyword(Keyword::Key)?;
            return Ok(AlterAction::DropPrimaryKey);
        }
        if self.eat_keywords(Keyword::Limit, Keyword::Partition) {
            self.require_keyword(Keyword::Rows)?;
            return Ok(AlterAction::DropLimitRows);
        }
        if self.eat_keyword(Keyword::Ttl) {
            return Ok(AlterAction::DropTtl);
        }
        self.optional_column_keyword();
        let column = self.name("a column name")?;
        let cascade = self.eat_keyword(Keyword::Cascade);
        Ok(AlterAction::DropColumn { column, cascade })
    }

    fn alter_alter(&mut self) -> Parsed<AlterAction> {
        if self.at_keyword(Keyword::Export) && self.keyword_ahead(1) == Keyword::To {
            return Ok(AlterAction::AlterExport(self.export_clause()?));
        }
        if self.at_keyword(Keyword::Using) {
            return Ok(AlterAction::AlterTtl(self.ttl_clause()?));
        }
        self.optional_column_keyword();
        match self.keyword_ahead(1) {
            Keyword::Set => {
                let column = self.name("a column name")?;
                self.advance();
                Ok(AlterAction::ChangeColumn { column, change: self.column_change()? })
            }
            Keyword::Rename => {
                let column = self.name("a column name")?;
                self.advance();
                self.require_keyword(Keyword::To)?;
                Ok(AlterAction::RenameColumn { column, to: self.name("a column name")? })
            }
            _ => {
                let column = self.column_definition()?;
                let cascade = self.eat_keyword(Keyword::Cascade);
                Ok(AlterAction::RedefineColumn { column, cascade })
            }
        }
    }

    /// `DEFAULT v`, `NULL` or `NOT NULL` after SET.
    fn column_change(&mut self) -> Parsed<ColumnChange> {
        if self.eat_keyword(Keyword::Default) {
            return Ok(ColumnChange::SetDefault(self.default_value()?));
        }
        if self.eat_keyword(Keyword::Null) {
            return Ok(ColumnChange::SetNull);
        }
        self.require_keywords(&[Keyword::Not, Keyword::Null])?;
        Ok(ColumnChange::SetNotNull)
    }
}
