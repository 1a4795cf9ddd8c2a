//! SELECT, set operations, common tables, ORDER BY and limits.

use super::{Parsed, Parser, QUERY_LEVELS};
use crate::ast::{
    CommonTable, Expression, LimitClause, NullsOrder, OrderItem, Query, QueryBody, Select,
    SelectItem, SetOperator, SortDirection, Span, With,
};
use crate::error::SqlError;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// A branch of a set operation, with the limit of its `SELECT TOP n`, which belongs to the whole
/// query if the branch turns out to be all of it.
struct Branch {
    body: QueryBody,
    top: LimitClause,
    span: Span,
}

impl Parser<'_> {
    /// A whole query.
    pub(super) fn query(&mut self) -> Parsed<Query> {
        let start = self.token().span;
        self.enter(QUERY_LEVELS)?;
        let beside = core::mem::replace(&mut self.height, 0);
        let with = match self.at_keyword(Keyword::With) {
            true => Some(self.with()?),
            false => None,
        };
        let query = self.query_behind_with(with, start)?;
        self.height = self.height.max(beside);
        self.leave(QUERY_LEVELS);
        Ok(query)
    }

    /// The query that the common tables of a WITH are for.
    pub(super) fn query_behind_with(&mut self, with: Option<With>, start: Span) -> Parsed<Query> {
        let first = self.branch()?;
        self.query_rest(with, first, start)
    }

    /// `(query)`
    pub(super) fn query_in_parentheses(&mut self) -> Parsed<Query> {
        self.require(TokenKind::LeftParenthesis)?;
        let query = self.query()?;
        self.require(TokenKind::RightParenthesis)?;
        Ok(query)
    }

    /// The rest of a query whose first branch, in parentheses, was read as something else.
    pub(super) fn query_from_branch(&mut self, branch: Box<Query>) -> Parsed<Query> {
        let span = branch.span;
        self.enter(QUERY_LEVELS)?;
        let first =
            Branch { body: QueryBody::Parenthesized(branch), top: LimitClause::default(), span };
        let query = self.query_rest(None, first, span)?;
        self.leave(QUERY_LEVELS);
        Ok(query)
    }

    /// Whether the current token goes on with a query whose first branch is complete.
    pub(super) fn at_query_continuation(&self) -> bool {
        set_operator(self.peek_keyword()).is_some()
            || matches!(
                self.peek_keyword(),
                Keyword::Order | Keyword::Limit | Keyword::Offset | Keyword::Fetch
            )
    }

    /// Set operations, ORDER BY and limits after the first branch.
    fn query_rest(&mut self, with: Option<With>, first: Branch, start: Span) -> Parsed<Query> {
        let branch = self.set_operations(first)?;
        let order_by = self.order_by()?;
        let limit = match branch.top.is_empty() {
            true => self.limit_clause()?,
            false => branch.top,
        };
        self.grow(QUERY_LEVELS)?;
        let span = self.since(start);
        match branch.body {
            QueryBody::Parenthesized(inner)
                if with.is_none() && order_by.is_empty() && limit.is_empty() =>
            {
                Ok(*inner)
            }
            body => Ok(Query { with, body, order_by, limit, span }),
        }
    }

    pub(super) fn with(&mut self) -> Parsed<With> {
        self.advance();
        let recursive = self.eat_keyword(Keyword::Recursive);
        let tables = self.list("common tables", |parser| {
            let start = parser.token().span;
            let name = parser.name("the name of a common table")?;
            let columns = parser.optional_names()?;
            parser.require_keyword(Keyword::As)?;
            let query = Box::new(parser.query_in_parentheses()?);
            Ok(CommonTable { name, columns, query, span: parser.since(start) })
        })?;
        Ok(With { recursive, tables })
    }

    /// UNION and EXCEPT, from left to right, of what INTERSECT combines.
    fn set_operations(&mut self, first: Branch) -> Parsed<Branch> {
        let mut left = self.intersections(first)?;
        while let Some(operator) = set_operator(self.peek_keyword()) {
            let (operator_span, all) = self.set_operator()?;
            let right = self.branch()?;
            let right = self.intersections(right)?;
            left = self.combine(left, right, (operator, all, operator_span))?;
        }
        Ok(left)
    }

    fn intersections(&mut self, first: Branch) -> Parsed<Branch> {
        let mut left = first;
        while self.peek_keyword() == Keyword::Intersect {
            let (operator_span, all) = self.set_operator()?;
            let right = self.branch()?;
            left = self.combine(left, right, (SetOperator::Intersect, all, operator_span))?;
        }
        Ok(left)
    }

    /// The operator at the current token with ALL or DISTINCT.
    fn set_operator(&mut self) -> Parsed<(Span, bool)> {
        let span = self.advance().span;
        let all = self.eat_keyword(Keyword::All);
        if !all {
            self.eat_keyword(Keyword::Distinct);
        }
        Ok((span, all))
    }

    fn combine(
        &mut self,
        left: Branch,
        right: Branch,
        (operator, all, operator_span): (SetOperator, bool, Span),
    ) -> Parsed<Branch> {
        self.grow(1)?;
        let span = left.span.to(right.span);
        let (left, right) = (Box::new(left.into_body()), Box::new(right.into_body()));
        let body = QueryBody::SetOperation { operator, all, operator_span, left, right };
        Ok(Branch { body, top: LimitClause::default(), span })
    }

    /// A SELECT, VALUES, or a query in parentheses.
    fn branch(&mut self) -> Parsed<Branch> {
        let start = self.token().span;
        if self.at_keyword(Keyword::Select) {
            let (select, top) = self.select()?;
            let body = QueryBody::Select(Box::new(select));
            return Ok(Branch { body, top, span: self.since(start) });
        }
        if self.eat_keyword(Keyword::Values) {
            let body = QueryBody::Values(self.rows()?);
            return Ok(Branch { body, top: LimitClause::default(), span: self.since(start) });
        }
        let query = self.query_in_parentheses()?;
        let body = QueryBody::Parenthesized(Box::new(query));
        Ok(Branch { body, top: LimitClause::default(), span: self.since(start) })
    }

    fn select(&mut self) -> Parsed<(Select, LimitClause)> {
        let start = self.advance().span;
        let mut top = self.top()?;
        let distinct = self.peek_keyword() == Keyword::Distinct;
        if distinct || self.peek_keyword() == Keyword::All {
            self.advance();
        }
        if top.is_empty() {
            top = self.top()?;
        }
        let items = self.list("items in the select list", Parser::select_item)?;
        let from = match self.eat_keyword(Keyword::From) {
            true => self.list("tables", Parser::joined_tables)?,
            false => Vec::new(),
        };
        let selection = self.optional_clause(Keyword::Where)?;
        let group_by = match self.eat_keyword(Keyword::Group) {
            true => {
                self.require_keyword(Keyword::By)?;
                self.refuse_grouping_sets()?;
                self.list("expressions of GROUP BY", Parser::expression)?
            }
            false => Vec::new(),
        };
        let having = self.optional_clause(Keyword::Having)?;
        let span = self.since(start);
        Ok((Select { distinct, items, from, selection, group_by, having, span }, top))
    }

    fn refuse_grouping_sets(&self) -> Parsed<()> {
        let sets = match (self.peek_keyword(), self.keyword_ahead(1), self.peek_ahead(1)) {
            (Keyword::Grouping, Keyword::Sets, _) => "GROUPING SETS are",
            (Keyword::Rollup, _, TokenKind::LeftParenthesis) => "ROLLUP is",
            (Keyword::Cube, _, TokenKind::LeftParenthesis) => "CUBE is",
            _ => return Ok(()),
        };
        Err(self.not_supported(sets))
    }

    /// WHERE or HAVING and its condition, if the keyword stands here.
    pub(super) fn optional_clause(&mut self, keyword: Keyword) -> Parsed<Option<Expression>> {
        match self.eat_keyword(keyword) {
            true => Ok(Some(self.expression()?)),
            false => Ok(None),
        }
    }

    /// `TOP n` and `LIMIT offset n` after SELECT.
    fn top(&mut self) -> Parsed<LimitClause> {
        let is_count = |kind| matches!(kind, TokenKind::Number | TokenKind::Parameter);
        if !is_count(self.peek_ahead(1)) {
            return Ok(LimitClause::default());
        }
        match self.peek_keyword() {
            Keyword::Top => {
                self.advance();
                Ok(LimitClause { limit: Some(self.row_count()?), offset: None })
            }
            Keyword::Limit if is_count(self.peek_ahead(2)) => {
                self.advance();
                let offset = Some(self.row_count()?);
                Ok(LimitClause { limit: Some(self.row_count()?), offset })
            }
            _ => Ok(LimitClause::default()),
        }
    }

    fn select_item(&mut self) -> Parsed<SelectItem> {
        if self.peek() == TokenKind::Star {
            return Ok(SelectItem::Star(self.advance().span));
        }
        if self.at_name()
            && self.peek_ahead(1) == TokenKind::Dot
            && self.peek_ahead(2) == TokenKind::Star
        {
            let name = self.name("a table name")?;
            self.advance();
            self.advance();
            return Ok(SelectItem::TableStar(name));
        }
        let expression = self.expression_or_end()?;
        let alias = self.optional_alias()?;
        Ok(SelectItem::Expression { expression, alias })
    }

    /// `[AS] alias`
    pub(super) fn optional_alias(&mut self) -> Parsed<Option<crate::ast::Name>> {
        if self.eat_keyword(Keyword::As) {
            return Ok(Some(self.name("an alias")?));
        }
        match self.at_bare_alias() {
            true => Ok(Some(self.name("an alias")?)),
            false => Ok(None),
        }
    }

    /// Whether the current token is an alias although no AS stands before it.
    pub(super) fn at_bare_alias(&self) -> bool {
        match self.peek() {
            TokenKind::Quoted => true,
            TokenKind::Word(keyword) => !keyword.ends_item(),
            _ => false,
        }
    }

    /// `ORDER BY ...` if it stands here.
    pub(super) fn order_by(&mut self) -> Parsed<Vec<OrderItem>> {
        if !self.eat_keyword(Keyword::Order) {
            return Ok(Vec::new());
        }
        self.require_keyword(Keyword::By)?;
        self.list("items of ORDER BY", |parser| {
            let expression = parser.expression()?;
            let descending = parser.eat_keyword(Keyword::Desc);
            if !descending {
                parser.eat_keyword(Keyword::Asc);
            }
            let direction = match descending {
                true => SortDirection::Descending,
                false => SortDirection::Ascending,
            };
            let nulls = match parser.eat_keyword(Keyword::Nulls) {
                false => None,
                true if parser.eat_keyword(Keyword::First) => Some(NullsOrder::First),
                true => {
                    parser.require_keyword(Keyword::Last)?;
                    Some(NullsOrder::Last)
                }
            };
            Ok(OrderItem { expression, direction, nulls })
        })
    }

    /// LIMIT, OFFSET and FETCH FIRST, each at most once, in any order.
    pub(super) fn limit_clause(&mut self) -> Parsed<LimitClause> {
        let mut clause = LimitClause::default();
        loop {
            if clause.limit.is_none() && self.eat_keyword(Keyword::Limit) {
                clause.limit = Some(self.row_count()?);
            } else if clause.offset.is_none() && self.eat_keyword(Keyword::Offset) {
                clause.offset = Some(self.row_count()?);
                if !self.eat_keyword(Keyword::Rows) {
                    self.eat_keyword(Keyword::Row);
                }
            } else if clause.limit.is_none() && self.eat_keyword(Keyword::Fetch) {
                clause.limit = Some(self.fetch_first()?);
            } else {
                return Ok(clause);
            }
        }
    }

    /// `{FIRST | NEXT} [n] {ROW | ROWS} ONLY`
    fn fetch_first(&mut self) -> Parsed<Box<Expression>> {
        if !self.eat_keyword(Keyword::First) {
            self.require_keyword(Keyword::Next)?;
        }
        let one = matches!(self.peek_keyword(), Keyword::Row | Keyword::Rows);
        let limit = match one {
            true => {
                let span = self.token().span;
                let value = crate::ast::Literal::Integer("1".to_string());
                Box::new(super::expression::literal(value, span))
            }
            false => self.row_count()?,
        };
        if !self.eat_keyword(Keyword::Rows) {
            self.require_keyword(Keyword::Row)?;
        }
        self.require_keyword(Keyword::Only)?;
        Ok(limit)
    }

    /// An integer or `?`.
    fn row_count(&mut self) -> Parsed<Box<Expression>> {
        let token = self.token();
        if token.kind == TokenKind::Parameter {
            return Ok(Box::new(self.parameter()?));
        }
        let source = self.source(token.span);
        if token.kind != TokenKind::Number || !source.bytes().all(|byte| byte.is_ascii_digit()) {
            let message = "incompatible data type in LIMIT, OFFSET or FETCH".to_string();
            return Err(SqlError { message, ..self.unexpected_instead_of("an integer or ?") });
        }
        self.advance();
        let value = crate::ast::Literal::Integer(source.to_string());
        Ok(Box::new(super::expression::literal(value, token.span)))
    }
}

impl Branch {
    /// The branch as a part of a set operation, its own limit kept inside.
    fn into_body(self) -> QueryBody {
        if self.top.is_empty() {
            return self.body;
        }
        let Branch { body, top, span } = self;
        let query = Query { with: None, body, order_by: Vec::new(), limit: top, span };
        QueryBody::Parenthesized(Box::new(query))
    }
}

fn set_operator(keyword: Keyword) -> Option<SetOperator> {
    match keyword {
        Keyword::Union => Some(SetOperator::Union),
        Keyword::Except | Keyword::Minus => Some(SetOperator::Except),
        Keyword::Intersect => Some(SetOperator::Intersect),
        _ => None,
    }
}
