//! GROUP BY, and the expressions that repeat a grouped subquery.

use super::scope::GroupedSubquery;
use super::{Binder, is_untyped};
use crate::error::PlanError;
use crate::query::walk;
use lockstep_plan_ir::Expression;
use lockstep_sql::ast::{self, ExpressionKind, Literal, SelectItem};

impl Binder<'_> {
    /// GROUP BY. Its expressions with subqueries are kept for the parts that repeat them.
    pub(super) fn group_by(
        &mut self,
        group_by: &[ast::Expression],
        items: &[SelectItem],
    ) -> Result<Vec<Expression>, PlanError> {
        let mut group = Vec::with_capacity(group_by.len());
        let mut grouped = Vec::new();
        for expression in group_by {
            let source = self.group_source(expression, items)?;
            let bound = self.checked_group(source)?;
            if walk::any(&bound, &|e| walk::subquery_of(e).is_some()) {
                let (text, span) = (source.to_string(), source.span);
                grouped.push(GroupedSubquery { text, span, expression: bound.clone() });
            }
            group.push(bound);
        }
        self.scopes.last_mut().expect("the SELECT's scope").grouped = grouped;
        Ok(group)
    }

    /// The expression that an item of GROUP BY names: itself, or an item of the select list by
    /// position or alias.
    fn group_source<'a>(
        &self,
        expression: &'a ast::Expression,
        items: &'a [SelectItem],
    ) -> Result<&'a ast::Expression, PlanError> {
        if let ExpressionKind::Literal(Literal::Integer(text)) = &expression.kind {
            // GROUP BY 2: by the second item of the select list.
            let position = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            return match position.and_then(|position| items.get(position)) {
                Some(SelectItem::Expression { expression, .. }) => Ok(expression),
                _ => {
                    let message = format!("invalid GROUP BY expression: there is no item {text}");
                    Err(PlanError::at(expression.span, message))
                }
            };
        }
        if let ExpressionKind::Column(name) = &expression.kind
            && name.table.is_none()
        {
            let scope = self.scopes.last().expect("the SELECT's scope");
            let known = scope.column(name)?.is_some();
            let aliased = items.iter().find_map(|item| match item {
                SelectItem::Expression { expression, alias: Some(alias) }
                    if *alias == name.name =>
                {
                    Some(expression)
                }
                _ => None,
            });
            if !known && let Some(aliased) = aliased {
                return Ok(aliased);
            }
        }
        Ok(expression)
    }

    fn checked_group(&mut self, expression: &ast::Expression) -> Result<Expression, PlanError> {
        let bound = self.expression(expression)?;
        if is_untyped(&bound) {
            return Err(PlanError::at(expression.span, super::CAST_NEEDED));
        }
        Ok(bound)
    }

    /// The bound expression of GROUP BY that contains a subquery and that `expression` repeats.
    /// A parameter of one text is another value in the next, except at the same position.
    pub(super) fn grouped_subquery(&self, expression: &ast::Expression) -> Option<Expression> {
        let grouped = &self.scopes.last()?.grouped;
        if grouped.is_empty() {
            return None;
        }
        let text = expression.to_string();
        let alike = grouped.iter().find(|grouped| {
            grouped.text == text && (grouped.span == expression.span || !text.contains('?'))
        });
        alike.map(|grouped| grouped.expression.clone())
    }
}
