//! CREATE PROCEDURE, PARTITION PROCEDURE and CREATE FUNCTION.

use super::{Parsed, Parser};
use crate::ast::{
    BodyStatement, CaseName, CreateFunction, CreateProcedure, FunctionSource, Name,
    PartitionProcedure, ProcedureBody, ProcedureKind, ProcedurePartition,
};
use crate::error::SqlError;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// The most partitions that a procedure may declare.
const MAX_PARTITIONS: u32 = 64;

impl Parser<'_> {
    /// CREATE PROCEDURE in all its forms.
    pub(super) fn create_procedure(&mut self) -> Parsed<CreateProcedure> {
        self.advance();
        let mut kind = match self.peek_keyword() {
            Keyword::Directed => ProcedureKind::Directed,
            Keyword::Compound => ProcedureKind::Compound,
            _ => ProcedureKind::Plain,
        };
        if kind != ProcedureKind::Plain {
            self.advance();
        }
        self.require_keyword(Keyword::Procedure)?;
        let name = match self.at_procedure_clause() {
            true => None,
            false => Some(self.procedure_name()?),
        };
        let mut partitions = Vec::new();
        let mut allow = Vec::new();
        let (mut effects, mut local_data) = (false, false);
        loop {
            if partitions.is_empty() && self.eat_keyword(Keyword::Partition) {
                partitions = self.procedure_partitions()?;
            } else if allow.is_empty() && self.eat_keyword(Keyword::Allow) {
                allow = self.list("roles", |parser| parser.name("a role"))?;
            } else if !(effects && local_data) && self.eat_keyword(Keyword::With) {
                if !local_data && self.eat_keyword(Keyword::Local) {
                    self.require_keyword(Keyword::Data)?;
                    local_data = true;
                } else if !effects && self.eat_keyword(Keyword::Effects) {
                    effects = true;
                } else {
                    return Err(self.unexpected_instead_of("EFFECTS or LOCAL DATA"));
                }
            } else if kind == ProcedureKind::Plain && self.eat_keyword(Keyword::Directed) {
                kind = ProcedureKind::Directed;
            } else {
                break;
            }
        }
        let body = self.procedure_body(name.is_some())?;
        Ok(CreateProcedure { kind, name, partitions, allow, effects, local_data, body })
    }

    /// Whether a clause stands where the name could: the name is the class's then.
    fn at_procedure_clause(&self) -> bool {
        match (self.peek_keyword(), self.keyword_ahead(1)) {
            (Keyword::Partition, next) => next == Keyword::On,
            (Keyword::From, next) => matches!(next, Keyword::Class | Keyword::Native),
            (Keyword::Allow, next) => {
                !matches!(next, Keyword::As | Keyword::From | Keyword::Partition)
            }
            (Keyword::With, next) => matches!(next, Keyword::Effects | Keyword::Local),
            (Keyword::Directed, next) => matches!(next, Keyword::From | Keyword::Partition),
            _ => false,
        }
    }

    /// A procedure's name: any word, its case kept.
    fn procedure_name(&mut self) -> Parsed<CaseName> {
        let name = self.case_name("a procedure name")?;
        if self.peek() != TokenKind::Dot {
            return Ok(name);
        }
        let message = format!("a procedure name holds no dots: {}.", name.text);
        let found = Some(".".to_string());
        Err(SqlError { message, span: self.token().span, expected: Vec::new(), found })
    }

    /// `ON TABLE t COLUMN c [VIA GLOBAL INDEX i] [PARAMETER n] [AND ON TABLE ...]`
    fn procedure_partitions(&mut self) -> Parsed<Vec<ProcedurePartition>> {
        let mut partitions = vec![self.procedure_partition()?];
        while self.eat_keyword(Keyword::And) {
            if partitions.len() >= MAX_PARTITIONS as usize {
                let place = self.token().span;
                let what = "the procedure declares more partitions".to_string();
                return Err(SqlError::limit(what, "partitions", MAX_PARTITIONS, place));
            }
            partitions.push(self.procedure_partition()?);
        }
        Ok(partitions)
    }

    fn procedure_partition(&mut self) -> Parsed<ProcedurePartition> {
        let start = self.token().span;
        self.require_keywords(&[Keyword::On, Keyword::Table])?;
        let table = self.name("a table name")?;
        let columns = self.partitioning_columns()?;
        let via = match self.eat_keyword(Keyword::Via) {
            true => {
                self.require_keywords(&[Keyword::Global, Keyword::Index])?;
                Some(self.name("a global index")?)
            }
            false => None,
        };
        let parameters =
            match self.eat_keyword(Keyword::Parameter) || self.eat_keyword(Keyword::Parameters) {
                true => self.list("parameters", |parser| parser.parameter_number())?,
                false => Vec::new(),
            };
        Ok(ProcedurePartition { table, columns, via, parameters, span: self.since(start) })
    }

    fn parameter_number(&mut self) -> Parsed<u32> {
        let place = self.token().span;
        let number = self.unsigned("the number of a parameter")?;
        u32::try_from(number).map_err(|_| {
            let what = format!("parameter {number} is named");
            SqlError::limit(what, "parameters", self.limits.parameters, place)
        })
    }

    fn procedure_body(&mut self, named: bool) -> Parsed<ProcedureBody> {
        if self.eat_keyword(Keyword::From) {
            if self.eat_keyword(Keyword::Native) {
                return Ok(ProcedureBody::Native(self.dotted_name("a native procedure")?));
            }
            self.require_keyword(Keyword::Class)?;
            return Ok(ProcedureBody::Class(self.dotted_name("a class name")?));
        }
        if !named {
            return Err(self.unexpected());
        }
        self.require_keyword(Keyword::As)?;
        if !self.eat_keyword(Keyword::Begin) {
            let statement = self.body_statement()?;
            self.parameters = 0;
            self.tables = 0;
            return Ok(ProcedureBody::Statements(vec![statement]));
        }
        let mut statements = Vec::new();
        if self.peek_keyword() == Keyword::End {
            let message = "the procedure has no statements".to_string();
            return Err(SqlError { message, ..self.unexpected_instead_of("a query or DML") });
        }
        loop {
            statements.push(self.body_statement()?);
            let most = self.limits.statements;
            self.check_count(statements.len(), "statements", "statements", most)?;
            let closed = self.eat(TokenKind::Semicolon);
            while self.eat(TokenKind::Semicolon) {}
            if self.eat_keyword(Keyword::End) {
                break;
            }
            if !closed {
                return Err(self.unexpected());
            }
        }
        // The parameters are the body statements' own.
        self.parameters = 0;
        self.tables = 0;
        Ok(ProcedureBody::Statements(statements))
    }

    fn body_statement(&mut self) -> Parsed<BodyStatement> {
        let start = self.token().span;
        self.parameters = 0;
        self.tables = 0;
        let statement = self.query_or_dml()?;
        let span = self.since(start);
        let text = self.source(span).to_string();
        Ok(BodyStatement { statement, text, span, parameter_count: self.parameters })
    }

    /// `p ON TABLE t COLUMN c ...` after PARTITION PROCEDURE.
    pub(super) fn partition_procedure(&mut self) -> Parsed<PartitionProcedure> {
        let procedure = self.procedure_name()?;
        Ok(PartitionProcedure { procedure, partitions: self.procedure_partitions()? })
    }

    /// `CREATE FUNCTION f FROM METHOD c.m`, `CREATE AGGREGATE FUNCTION f FROM CLASS c`
    pub(super) fn create_function(&mut self) -> Parsed<CreateFunction> {
        self.advance();
        let aggregate = self.eat_keyword(Keyword::Aggregate);
        self.require_keyword(Keyword::Function)?;
        let name: Name = self.name("a function name")?;
        self.require_keyword(Keyword::From)?;
        if aggregate {
            self.require_keyword(Keyword::Class)?;
            let class = self.dotted_name("a class name")?;
            return Ok(CreateFunction { name, source: FunctionSource::AggregateClass(class) });
        }
        self.require_keyword(Keyword::Method)?;
        let path = self.dotted_name("a class and a method")?;
        let Some((class, method)) = path.text.rsplit_once('.') else {
            return Err(self.unexpected());
        };
        let method = CaseName { text: method.to_string(), span: self.last_span() };
        let class = CaseName { text: class.to_string(), span: path.span };
        Ok(CreateFunction { name, source: FunctionSource::Method { class, method } })
    }
}
