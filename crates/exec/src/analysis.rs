//! What a plan's expressions and relations read.

use lockstep_plan_ir::expression::{Expression, Node};
use lockstep_plan_ir::relation::{Access, JoinMethod, KeyList, Relation};

/// Calls `visit` for the expression and all within it; subqueries' relations are not entered.
pub(crate) fn walk<'a>(expression: &'a Expression, visit: &mut dyn FnMut(&'a Expression)) {
    visit(expression);
    let mut each = |expressions: &'a [Expression]| {
        expressions.iter().for_each(|expression| walk(expression, visit));
    };
    match &expression.node {
        Node::Literal(_)
        | Node::Parameter(_)
        | Node::Column { .. }
        | Node::ScalarSubquery(_)
        | Node::Exists(_) => {}
        Node::And(parts) | Node::Or(parts) | Node::Call(_, parts) | Node::UserCall(_, parts) => {
            each(parts);
        }
        Node::Not(inner) | Node::IsNull(inner) | Node::Negate(inner) => walk(inner, visit),
        Node::Cast { value, .. } | Node::InArray { value, .. } => walk(value, visit),
        Node::Compare(_, left, right)
        | Node::Arithmetic(_, left, right)
        | Node::StartsWith(left, right)
        | Node::Like { value: left, pattern: right, .. } => {
            walk(left, visit);
            walk(right, visit);
        }
        Node::Case { branches, otherwise } => {
            for (condition, result) in branches {
                walk(condition, visit);
                walk(result, visit);
            }
            otherwise.iter().for_each(|result| walk(result, visit));
        }
        Node::InList { value, list } => {
            walk(value, visit);
            list.iter().for_each(|item| walk(item, visit));
        }
        Node::Quantified { row, .. } => each(row),
        Node::CompareRows(_, left, right) => {
            each(left);
            each(right);
        }
    }
}

/// The expressions of a relation itself, without those of its inputs. Subqueries that give an
/// index its keys are not entered.
pub(crate) fn own_expressions(relation: &Relation) -> Vec<&Expression> {
    let mut found: Vec<&Expression> = Vec::new();
    match relation {
        Relation::OneRow | Relation::Receive { .. } | Relation::Working { .. } => {}
        Relation::Scan(scan) => {
            found.extend(&scan.filter);
            match &scan.access {
                Access::Index { equal, lower, upper, .. } => {
                    found.extend(equal);
                    found.extend(lower.iter().chain(upper).map(|bound| &bound.value));
                }
                Access::IndexList { list: KeyList::Values(values), .. } => found.extend(values),
                _ => {}
            }
        }
        Relation::Filter { predicate, .. } => found.push(predicate),
        Relation::Project { expressions, .. } => found.extend(expressions),
        Relation::Join(join) => {
            found.extend(&join.condition);
            if let JoinMethod::Hash { left, right } = &join.method {
                found.extend(left.iter().chain(right));
            }
        }
        Relation::Aggregate { group, calls, .. } => {
            found.extend(group);
            found.extend(calls.iter().filter_map(|call| call.argument.as_ref()));
        }
        Relation::Sort { keys, limit, offset, .. } => {
            found.extend(keys.iter().map(|key| &key.expression));
            found.extend(limit.iter().chain(offset));
        }
        Relation::Limit { limit, offset, .. } => found.extend(limit.iter().chain(offset)),
        Relation::Distinct { .. } => {}
        Relation::SetOperation { branches, .. } => {
            branches.iter().for_each(|branch| found.extend(&branch.output));
        }
        Relation::Window { calls, .. } => {
            for call in calls {
                found.extend(call.arguments.iter().chain(&call.partition));
                found.extend(call.order.iter().map(|key| &key.expression));
            }
        }
        Relation::Recursive { base, step, .. } => {
            found.extend(base.output.iter().chain(&step.output))
        }
    }
    found
}

/// Whether the expression reads tables through a subquery.
pub(crate) fn has_subquery(expression: &Expression) -> bool {
    let mut found = false;
    walk(expression, &mut |part| {
        found |= matches!(
            part.node,
            Node::ScalarSubquery(_) | Node::Exists(_) | Node::Quantified { .. }
        );
    });
    found
}

/// Adds the columns of a slot that the expression reads.
pub(crate) fn columns_read(expression: &Expression, slot: u16, columns: &mut Vec<u16>) {
    walk(expression, &mut |part| {
        if let Node::Column { slot: of, column } = part.node
            && of == slot
            && !columns.contains(&column)
        {
            columns.push(column);
        }
    });
}

/// Whether the relation is VALUES: one row from nothing.
pub(crate) fn is_one_row(relation: &Relation) -> bool {
    matches!(relation, Relation::OneRow)
}
