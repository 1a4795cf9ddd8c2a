//! Function calls, the syntaxes that some functions have of their own, and OVER.

use super::expression::Binding;
use super::{Parsed, Parser};
use crate::ast::{
    Expression, ExpressionKind, FrameBound, FrameExclusion, FrameUnit, FunctionCall,
    FunctionKeyword, FunctionUnit, Name, TimeUnit, Window, WindowFrame,
};
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Whether a word in front of `(` names a function.
    pub(super) fn is_function(&self, keyword: Keyword) -> bool {
        !keyword.is_reserved()
            || matches!(
                keyword,
                Keyword::Left
                    | Keyword::Right
                    | Keyword::Max
                    | Keyword::Min
                    | Keyword::Count
                    | Keyword::Sum
                    | Keyword::Avg
                    | Keyword::Every
                    | Keyword::Some
                    | Keyword::Coalesce
                    | Keyword::Nullif
                    | Keyword::Convert
                    | Keyword::Grouping
                    | Keyword::StddevPop
                    | Keyword::StddevSamp
                    | Keyword::VarPop
                    | Keyword::VarSamp
            )
    }

    /// A function that is called without parentheses.
    pub(super) fn bare_function(&mut self) -> Parsed<Expression> {
        let token = self.advance();
        let call = FunctionCall { parentheses: false, ..empty_call(self.name_of(token)?) };
        Ok(Expression { kind: ExpressionKind::Function(Box::new(call)), span: token.span })
    }

    /// `name(...)`, with FILTER and OVER.
    pub(super) fn function_call(&mut self) -> Parsed<Expression> {
        let token = self.advance();
        let keyword = match token.kind {
            TokenKind::Word(keyword) => keyword,
            _ => Keyword::None,
        };
        let mut call = Box::new(empty_call(self.name_of(token)?));
        self.require(TokenKind::LeftParenthesis)?;
        match keyword {
            Keyword::Extract => self.extract_arguments(&mut call)?,
            Keyword::Position => self.position_arguments(&mut call)?,
            Keyword::Substring => self.substring_arguments(&mut call)?,
            Keyword::Overlay => self.overlay_arguments(&mut call)?,
            Keyword::Trim => self.trim_arguments(&mut call)?,
            Keyword::Dateadd
            | Keyword::Datediff
            | Keyword::Truncate
            | Keyword::SinceEpoch
            | Keyword::ToTimestamp
            | Keyword::TimeWindow => self.unit_arguments(&mut call)?,
            _ => self.plain_arguments(&mut call)?,
        }
        self.require(TokenKind::RightParenthesis)?;
        if self.peek_keyword() == Keyword::Filter
            && self.peek_ahead(1) == TokenKind::LeftParenthesis
            && self.keyword_ahead(2) == Keyword::Where
        {
            self.advance();
            self.advance();
            self.advance();
            call.filter = Some(self.expression()?);
            self.require(TokenKind::RightParenthesis)?;
        }
        if self.peek_keyword() == Keyword::Over && self.peek_ahead(1) == TokenKind::LeftParenthesis
        {
            call.over = Some(self.window()?);
        }
        let span = self.since(token.span);
        Ok(Expression { kind: ExpressionKind::Function(call), span })
    }

    /// `*`, nothing, or `[DISTINCT | ALL] a, b, ...`
    fn plain_arguments(&mut self, call: &mut FunctionCall) -> Parsed<()> {
        if self.peek() == TokenKind::RightParenthesis {
            return Ok(());
        }
        if self.peek() == TokenKind::Star {
            self.advance();
            call.star = true;
            return Ok(());
        }
        if self.peek_keyword() == Keyword::Distinct {
            self.advance();
            call.distinct = true;
            if self.peek() == TokenKind::Star {
                self.advance();
                call.star = true;
                return Ok(());
            }
        } else if self.peek_keyword() == Keyword::All {
            self.advance();
        }
        self.more_arguments(call)
    }

    /// `a, b, ...` after the arguments that are already there.
    fn more_arguments(&mut self, call: &mut FunctionCall) -> Parsed<()> {
        loop {
            call.arguments.push(self.expression()?);
            let most = self.limits.columns;
            self.check_count(call.arguments.len(), "arguments", "columns", most)?;
            if !self.eat(TokenKind::Comma) {
                return Ok(());
            }
        }
    }

    /// `field FROM t` and `field, t`
    fn extract_arguments(&mut self, call: &mut FunctionCall) -> Parsed<()> {
        call.unit = Some(self.time_unit(&call.name.text)?);
        if !self.eat_keyword(Keyword::From) {
            self.require(TokenKind::Comma)?;
        }
        call.arguments.push(self.expression()?);
        Ok(())
    }

    /// `unit, a, b, ... [, START | END]`
    fn unit_arguments(&mut self, call: &mut FunctionCall) -> Parsed<()> {
        call.unit = Some(self.time_unit(&call.name.text)?);
        while self.eat(TokenKind::Comma) {
            let ends = self.peek_ahead(1) == TokenKind::RightParenthesis;
            let keyword = match self.peek_keyword() {
                Keyword::Start if ends => Some(FunctionKeyword::Start),
                Keyword::End if ends => Some(FunctionKeyword::End),
                _ => None,
            };
            if keyword.is_some() && call.name.text == "TIME_WINDOW" {
                self.advance();
                call.keyword = keyword;
                return Ok(());
            }
            call.arguments.push(self.expression()?);
            let most = self.limits.columns;
            self.check_count(call.arguments.len(), "arguments", "columns", most)?;
        }
        Ok(())
    }

    /// `needle IN text` and `needle, text`
    fn position_arguments(&mut self, call: &mut FunctionCall) -> Parsed<()> {
        call.arguments.push(self.operators(Binding::Sum)?);
        if !self.eat_keyword(Keyword::In) {
            self.require(TokenKind::Comma)?;
        }
        call.arguments.push(self.expression()?);
        Ok(())
    }

    /// `text FROM start [FOR length]` and `text, start [, length]`
    fn substring_arguments(&mut self, call: &mut FunctionCall) -> Parsed<()> {
        call.arguments.push(self.expression()?);
        if self.eat_keyword(Keyword::From) {
            call.arguments.push(self.expression()?);
            if self.eat_keyword(Keyword::For) {
                call.arguments.push(self.expression()?);
            }
            return Ok(());
        }
        self.require(TokenKind::Comma)?;
        self.more_arguments(call)
    }

    /// `text PLACING other FROM start [FOR length]` and the same with commas
    fn overlay_arguments(&mut self, call: &mut FunctionCall) -> Parsed<()> {
        call.arguments.push(self.expression()?);
        if !self.eat_keyword(Keyword::Placing) {
            self.require(TokenKind::Comma)?;
            return self.more_arguments(call);
        }
        call.arguments.push(self.expression()?);
        self.require_keyword(Keyword::From)?;
        call.arguments.push(self.expression()?);
        if self.eat_keyword(Keyword::For) {
            call.arguments.push(self.expression()?);
        }
        Ok(())
    }

    /// `[BOTH | LEADING | TRAILING] [character] FROM text`, or `text`; the same with commas:
    /// `[BOTH | LEADING | TRAILING,] [character,] text`
    fn trim_arguments(&mut self, call: &mut FunctionCall) -> Parsed<()> {
        let side = match self.peek_keyword() {
            Keyword::Both => Some(FunctionKeyword::Both),
            Keyword::Leading => Some(FunctionKeyword::Leading),
            Keyword::Trailing => Some(FunctionKeyword::Trailing),
            _ => None,
        };
        call.keyword = Some(side.unwrap_or(FunctionKeyword::Both));
        if side.is_some() {
            self.advance();
            self.eat(TokenKind::Comma);
        }
        if self.eat_keyword(Keyword::From) {
            call.arguments.push(self.expression()?);
            return Ok(());
        }
        let first = self.expression()?;
        if !self.eat_keyword(Keyword::From) && !self.eat(TokenKind::Comma) {
            // TRIM(LEADING s) without a FROM trims blanks.
            call.arguments.push(first);
            return Ok(());
        }
        call.arguments.push(self.expression()?);
        call.arguments.push(first);
        Ok(())
    }

    fn time_unit(&mut self, function: &str) -> Parsed<FunctionUnit> {
        let token = self.token();
        let name = match token.kind {
            TokenKind::Word(_) => self.source(token.span).to_uppercase(),
            _ => String::new(),
        };
        let unit = match name.as_str() {
            "YEAR" => TimeUnit::Year,
            "QUARTER" => TimeUnit::Quarter,
            "MONTH" => TimeUnit::Month,
            "WEEK" => TimeUnit::Week,
            "DAY" => TimeUnit::Day,
            "HOUR" => TimeUnit::Hour,
            "MINUTE" => TimeUnit::Minute,
            "SECOND" => TimeUnit::Second,
            "MILLISECOND" | "MILLIS" => TimeUnit::Millisecond,
            "MICROSECOND" | "MICROS" => TimeUnit::Microsecond,
            "DAY_OF_WEEK" => TimeUnit::DayOfWeek,
            "DAY_OF_MONTH" => TimeUnit::DayOfMonth,
            "DAY_OF_YEAR" => TimeUnit::DayOfYear,
            "WEEK_OF_YEAR" => TimeUnit::WeekOfYear,
            "WEEKDAY" => TimeUnit::Weekday,
            _ => {
                let what = "a time unit such as YEAR, MONTH, DAY, HOUR, MINUTE or SECOND";
                let mut error = self.unexpected_instead_of(what);
                if function != "EXTRACT" && !name.is_empty() {
                    error.message = format!("object not found: {function} by {name}");
                }
                return Err(error);
            }
        };
        self.advance();
        Ok(FunctionUnit { unit, span: token.span })
    }

    /// `OVER ([PARTITION BY ...] [ORDER BY ...] [frame])`
    fn window(&mut self) -> Parsed<Window> {
        let start = self.advance().span;
        // A window takes twice the stack of a plain argument.
        self.enter(1)?;
        self.require(TokenKind::LeftParenthesis)?;
        let partition_by = match self.eat_keywords(Keyword::Partition, Keyword::By) {
            true => self.list("expressions of PARTITION BY", Parser::expression)?,
            false => Vec::new(),
        };
        let order_by = self.order_by()?;
        let unit = match self.peek_keyword() {
            Keyword::Rows => Some(FrameUnit::Rows),
            Keyword::Range => Some(FrameUnit::Range),
            Keyword::Groups => Some(FrameUnit::Groups),
            _ => None,
        };
        let frame = match unit {
            Some(unit) => Some(self.frame(unit)?),
            None => None,
        };
        self.require(TokenKind::RightParenthesis)?;
        self.leave(1);
        Ok(Window { partition_by, order_by, frame, span: self.since(start) })
    }

    fn frame(&mut self, unit: FrameUnit) -> Parsed<WindowFrame> {
        let span = self.advance().span;
        let (start, end) = match self.eat_keyword(Keyword::Between) {
            true => {
                let start = self.frame_bound()?;
                self.require_keyword(Keyword::And)?;
                (start, self.frame_bound()?)
            }
            false => (self.frame_bound()?, FrameBound::CurrentRow),
        };
        let exclusion = self.frame_exclusion()?;
        Ok(WindowFrame { unit, start, end, exclusion, span: self.since(span) })
    }

    /// `EXCLUDE {CURRENT ROW | GROUP | TIES | NO OTHERS}`, if it stands here.
    fn frame_exclusion(&mut self) -> Parsed<FrameExclusion> {
        if !self.eat_keyword(Keyword::Exclude) {
            return Ok(FrameExclusion::NoOthers);
        }
        if self.eat_keyword(Keyword::Current) {
            self.require_keyword(Keyword::Row)?;
            return Ok(FrameExclusion::CurrentRow);
        }
        if self.eat_keyword(Keyword::Group) {
            return Ok(FrameExclusion::Group);
        }
        if self.eat_keyword(Keyword::Ties) {
            return Ok(FrameExclusion::Ties);
        }
        self.require_keywords(&[Keyword::No, Keyword::Others])?;
        Ok(FrameExclusion::NoOthers)
    }

    fn frame_bound(&mut self) -> Parsed<FrameBound> {
        if self.eat_keyword(Keyword::Current) {
            self.require_keyword(Keyword::Row)?;
            return Ok(FrameBound::CurrentRow);
        }
        let value = match self.eat_keyword(Keyword::Unbounded) {
            true => None,
            false => Some(Box::new(self.operators(Binding::Sum)?)),
        };
        let preceding = self.eat_keyword(Keyword::Preceding);
        if !preceding {
            self.require_keyword(Keyword::Following)?;
        }
        Ok(match (value, preceding) {
            (None, true) => FrameBound::UnboundedPreceding,
            (None, false) => FrameBound::UnboundedFollowing,
            (Some(value), true) => FrameBound::Preceding(value),
            (Some(value), false) => FrameBound::Following(value),
        })
    }
}

/// A call of a function with nothing in it yet.
fn empty_call(name: Name) -> FunctionCall {
    FunctionCall {
        name,
        unit: None,
        keyword: None,
        star: false,
        distinct: false,
        arguments: Vec::new(),
        parentheses: true,
        filter: None,
        over: None,
    }
}
