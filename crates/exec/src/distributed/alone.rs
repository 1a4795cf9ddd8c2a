//! At the only partition a distributed query needs no fragments: the coordinator's plan reads
//! theirs directly, and the whole runs as one.

use crate::analysis::{own_expressions, walk};
use lockstep_plan_ir::expression::{Expression, Node, Subquery};
use lockstep_plan_ir::statement::{Coordinator, Execution, Fragment, Operation, Query};
use lockstep_plan_ir::{Relation, Statement};

/// The query with the fragments in the places where their rows were received; `None` for other
/// statements, and where an expression receives rows.
pub(crate) fn joined_up(statement: &Statement) -> Option<Operation> {
    let Execution::Distributed { fragments, coordinator: Coordinator::Query(query) } =
        &statement.execution
    else {
        return None;
    };
    let receives = |expression: &Expression| expression_receives(expression);
    let expressions = query.relation.operators().into_iter().flat_map(own_expressions);
    if expressions.chain(&query.output).any(receives) {
        return None;
    }
    let relation = joined(&query.relation, fragments)?;
    Some(Operation::Query(Query { relation, output: query.output.clone() }))
}

fn joined(relation: &Relation, fragments: &[Fragment]) -> Option<Relation> {
    let mut relation = relation.clone();
    join_up(&mut relation, fragments)?;
    Some(relation)
}

fn join_up(relation: &mut Relation, fragments: &[Fragment]) -> Option<()> {
    match relation {
        Relation::Receive { slot, fragment, .. } => {
            let fragment = fragments.get(usize::from(*fragment))?;
            let Operation::Query(query) = &fragment.operation else { return None };
            *relation = Relation::Project {
                input: Box::new(query.relation.clone()),
                slot: *slot,
                expressions: query.output.clone(),
            };
            Some(())
        }
        Relation::OneRow | Relation::Scan(_) | Relation::Working { .. } => Some(()),
        Relation::Sort { input, .. } => {
            join_up(input, fragments)?;
            // What is sorted here need not come sorted.
            if let Relation::Project { input, .. } = &mut **input {
                while let Relation::Sort { input: unsorted, limit: None, offset: None, .. } =
                    &mut **input
                {
                    **input = std::mem::replace(&mut **unsorted, Relation::OneRow);
                }
            }
            Some(())
        }
        Relation::Filter { input, .. }
        | Relation::Project { input, .. }
        | Relation::Aggregate { input, .. }
        | Relation::Limit { input, .. }
        | Relation::Distinct { input, .. }
        | Relation::Window { input, .. } => join_up(input, fragments),
        Relation::Join(join) => {
            join_up(&mut join.left, fragments)?;
            join_up(&mut join.right, fragments)
        }
        Relation::SetOperation { branches, .. } => {
            branches.iter_mut().try_for_each(|branch| join_up(&mut branch.relation, fragments))
        }
        Relation::Recursive { base, step, .. } => {
            join_up(&mut base.relation, fragments)?;
            join_up(&mut step.relation, fragments)
        }
    }
}

/// Whether a subquery within the expression receives rows.
fn expression_receives(expression: &Expression) -> bool {
    let mut found = false;
    walk(expression, &mut |part| {
        found |= match &part.node {
            Node::ScalarSubquery(subquery)
            | Node::Exists(subquery)
            | Node::Quantified { subquery, .. } => subquery_receives(subquery),
            _ => false,
        };
    });
    found
}

fn subquery_receives(subquery: &Subquery) -> bool {
    let operators = subquery.relation.operators();
    operators.iter().any(|operator| matches!(operator, Relation::Receive { .. }))
        || operators.into_iter().flat_map(own_expressions).any(expression_receives)
        || subquery.output.iter().any(expression_receives)
}
