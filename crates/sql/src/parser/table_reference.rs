//! FROM: tables, derived tables and joins.

use super::{Parsed, Parser};
use crate::ast::{
    JoinCondition, JoinKind, LimitClause, Name, Query, QueryBody, Select, SelectItem, Span,
    TableAlias, TableReference, TableReferenceKind,
};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// An item of FROM: a table and what is joined to it.
    pub(super) fn joined_tables(&mut self) -> Parsed<TableReference> {
        let mut left = self.table_factor()?;
        loop {
            let natural = self.peek_keyword() == Keyword::Natural;
            if natural {
                self.advance();
            }
            let kind = match self.join_kind()? {
                Some(kind) => kind,
                None if natural => return Err(self.unexpected()),
                None => break,
            };
            let right = self.table_factor()?;
            let condition = match natural {
                true => JoinCondition::Natural,
                false => self.join_condition(kind)?,
            };
            self.grow(1)?;
            let span = self.since(left.span);
            let (left_side, right) = (Box::new(left), Box::new(right));
            let kind = TableReferenceKind::Join { left: left_side, right, kind, condition };
            left = TableReference { kind, span };
        }
        Ok(left)
    }

    /// The keywords of a join, if they stand here.
    fn join_kind(&mut self) -> Parsed<Option<JoinKind>> {
        let kind = match self.peek_keyword() {
            Keyword::Join => JoinKind::Inner,
            Keyword::Inner => JoinKind::Inner,
            Keyword::Cross => JoinKind::Cross,
            Keyword::Left => JoinKind::Left,
            Keyword::Right => JoinKind::Right,
            Keyword::Full => JoinKind::Full,
            _ => {
                self.expect_also("JOIN");
                return Ok(None);
            }
        };
        let outer = matches!(kind, JoinKind::Left | JoinKind::Right | JoinKind::Full);
        if self.advance().kind != TokenKind::Word(Keyword::Join) {
            if outer {
                self.eat_keyword(Keyword::Outer);
            }
            self.require_keyword(Keyword::Join)?;
        }
        Ok(Some(kind))
    }

    /// ON or USING. An inner join may go without, and is a cross join then; an outer join needs
    /// one; a cross join has none.
    fn join_condition(&mut self, kind: JoinKind) -> Parsed<JoinCondition> {
        if kind == JoinKind::Cross {
            return Ok(JoinCondition::None);
        }
        if self.eat_keyword(Keyword::On) {
            return Ok(JoinCondition::On(Box::new(self.expression()?)));
        }
        if self.eat_keyword(Keyword::Using) {
            return Ok(JoinCondition::Using(self.names_in_parentheses()?));
        }
        match kind {
            JoinKind::Inner => Ok(JoinCondition::None),
            _ => Err(self.unexpected()),
        }
    }

    /// A table, a derived table, or joins in parentheses.
    fn table_factor(&mut self) -> Parsed<TableReference> {
        let start = self.token().span;
        if self.peek() == TokenKind::LeftParenthesis {
            return match self.at_derived_table() {
                true => {
                    self.count_table()?;
                    let query = Box::new(self.query_in_parentheses()?);
                    let alias = self.table_alias()?;
                    let kind = TableReferenceKind::Derived { query, alias };
                    Ok(TableReference { kind, span: self.since(start) })
                }
                false => {
                    self.enter(1)?;
                    self.advance();
                    let inner = self.joined_tables()?;
                    self.require(TokenKind::RightParenthesis)?;
                    self.leave(1);
                    match self.table_alias()? {
                        None => Ok(inner),
                        Some(alias) => self.named_join(inner, alias, start),
                    }
                }
            };
        }
        self.count_table()?;
        let name = self.table_name()?;
        let alias = self.table_alias()?;
        let kind = TableReferenceKind::Table { name, alias };
        Ok(TableReference { kind, span: self.since(start) })
    }

    /// `(a JOIN b ...) AS s`: a derived table of all columns of the join.
    fn named_join(
        &mut self,
        join: TableReference,
        alias: TableAlias,
        start: Span,
    ) -> Parsed<TableReference> {
        self.count_table()?;
        self.grow(1)?;
        let span = join.span;
        let select = Select {
            distinct: false,
            items: vec![SelectItem::Star(span)],
            from: vec![join],
            selection: None,
            group_by: Vec::new(),
            having: None,
            span,
        };
        let query = Box::new(Query {
            with: None,
            body: QueryBody::Select(Box::new(select)),
            order_by: Vec::new(),
            limit: LimitClause::default(),
            span,
        });
        let kind = TableReferenceKind::Derived { query, alias: Some(alias) };
        Ok(TableReference { kind, span: self.since(start) })
    }

    fn count_table(&mut self) -> Parsed<()> {
        self.tables += 1;
        let most = self.limits.joined_tables;
        self.check_count(self.tables as usize, "tables in the statement", "joined_tables", most)
    }

    /// Whether the parenthesis at the current token opens a query rather than joined tables.
    /// `((SELECT ...) UNION ...) x` is a query, `((SELECT ...) x JOIN ...)` is not.
    fn at_derived_table(&self) -> bool {
        match self.peek_ahead(1) {
            TokenKind::Word(keyword) => keyword.begins_query(),
            TokenKind::LeftParenthesis => {
                let behind = self.behind_parenthesis(1);
                let keyword = self.keyword_ahead(behind);
                self.begins_query(1)
                    && (self.peek_ahead(behind) == TokenKind::RightParenthesis
                        || matches!(
                            keyword,
                            Keyword::Union
                                | Keyword::Except
                                | Keyword::Minus
                                | Keyword::Intersect
                                | Keyword::Order
                                | Keyword::Limit
                                | Keyword::Offset
                                | Keyword::Fetch
                        ))
            }
            _ => false,
        }
    }

    /// Whether nothing but parentheses stands between the token `ahead` and a SELECT.
    fn begins_query(&self, mut ahead: usize) -> bool {
        while self.peek_ahead(ahead) == TokenKind::LeftParenthesis {
            ahead += 1;
        }
        self.keyword_ahead(ahead).begins_query()
    }

    /// How far ahead the token after the parenthesis is that closes the one `ahead`.
    fn behind_parenthesis(&self, mut ahead: usize) -> usize {
        let mut open = 0usize;
        loop {
            match self.peek_ahead(ahead) {
                TokenKind::LeftParenthesis => open += 1,
                TokenKind::RightParenthesis => open = open.saturating_sub(1),
                TokenKind::End => return ahead,
                _ => {}
            }
            ahead += 1;
            if open == 0 {
                return ahead;
            }
        }
    }

    /// `[AS] alias [(columns)]`
    fn table_alias(&mut self) -> Parsed<Option<TableAlias>> {
        let name: Option<Name> = self.optional_alias()?;
        let Some(name) = name else { return Ok(None) };
        let columns = self.optional_names()?;
        Ok(Some(TableAlias { name, columns }))
    }
}
