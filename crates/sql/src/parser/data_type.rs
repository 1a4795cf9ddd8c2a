//! Column types and CAST targets.

use super::{Parsed, Parser};
use crate::ast::{DataType, LengthUnit, TypeName};
use crate::error::SqlError;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// A type that VoltDB knows.
    pub(super) fn data_type(&mut self) -> Parsed<DataType> {
        let start = self.token().span;
        let name = match self.peek_keyword() {
            Keyword::Tinyint => TypeName::TinyInt,
            Keyword::Smallint => TypeName::SmallInt,
            Keyword::Integer | Keyword::Int => TypeName::Integer,
            Keyword::Bigint => TypeName::BigInt,
            Keyword::Float | Keyword::Real => TypeName::Float,
            Keyword::Decimal => TypeName::Decimal,
            Keyword::Varchar => TypeName::Varchar,
            Keyword::Char | Keyword::Character if self.keyword_ahead(1) == Keyword::Varying => {
                self.advance();
                TypeName::Varchar
            }
            Keyword::Varbinary => TypeName::Varbinary,
            Keyword::Timestamp => TypeName::Timestamp,
            Keyword::Geography => TypeName::Geography,
            Keyword::GeographyPoint => TypeName::GeographyPoint,
            _ => return Err(self.no_type()),
        };
        self.advance();
        let (length, unit) = self.type_length(name)?;
        Ok(DataType { name, length, unit, span: self.since(start) })
    }

    fn no_type(&self) -> SqlError {
        let mut error = self.unexpected_instead_of(
            "TINYINT, SMALLINT, INTEGER, BIGINT, FLOAT, DECIMAL, VARCHAR, VARBINARY, TIMESTAMP, \
             GEOGRAPHY or GEOGRAPHY_POINT",
        );
        if self.at_name() {
            let name = self.source(self.token().span).to_uppercase();
            error.message = format!("type not found: {name}");
        }
        error
    }

    /// `(n)`, `(n BYTES)` or DECIMAL's `(p, s)`, as the type allows.
    fn type_length(&mut self, name: TypeName) -> Parsed<(Option<u64>, LengthUnit)> {
        let unit = LengthUnit::Characters;
        let sized = matches!(
            name,
            TypeName::Varchar
                | TypeName::Varbinary
                | TypeName::Geography
                | TypeName::Decimal
                | TypeName::Float
        );
        if !sized || !self.eat(TokenKind::LeftParenthesis) {
            return Ok((None, unit));
        }
        let length = self.unsigned("a length")?;
        match name {
            TypeName::Decimal | TypeName::Float => {
                if name == TypeName::Decimal && self.eat(TokenKind::Comma) {
                    self.unsigned("a scale")?;
                }
                self.require(TokenKind::RightParenthesis)?;
                Ok((None, unit))
            }
            _ => {
                let bytes = name == TypeName::Varchar && self.eat_keyword(Keyword::Bytes);
                self.require(TokenKind::RightParenthesis)?;
                let unit = if bytes { LengthUnit::Bytes } else { unit };
                Ok((Some(length), unit))
            }
        }
    }
}
