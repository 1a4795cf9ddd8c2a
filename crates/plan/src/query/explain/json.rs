//! Plans as JSON, from the same steps as the text.

use super::Step;
use crate::listing::json_text;

/// Writes the object of a statement and its steps.
pub(super) fn write(sql: &str, steps: &[Step]) -> String {
    let mut out = format!("{{\"SQL\":{},\"PLAN\":", json_text(sql));
    write_list(&mut out, steps);
    out.push('}');
    out
}

/// Writes the array of the steps that are not inputs of another one of these. A step may be
/// indented by more than one below the step before.
fn write_list(out: &mut String, mut steps: &[Step]) {
    out.push('[');
    let mut separator = "";
    while let [step, rest @ ..] = steps {
        let end = rest.iter().position(|next| next.depth <= step.depth).unwrap_or(rest.len());
        let (inputs, others) = rest.split_at(end);
        out.push_str(separator);
        out.push_str("{\"STEP\":");
        out.push_str(&json_text(&step.text));
        if !inputs.is_empty() {
            out.push_str(",\"INPUTS\":");
            write_list(out, inputs);
        }
        out.push('}');
        separator = ",";
        steps = others;
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step((depth, text): &(usize, &str)) -> Step {
        Step { depth: *depth, text: text.to_string() }
    }

    #[test]
    fn inputs_are_nested() {
        let steps = [(0, "A"), (1, "B \"b\""), (3, "C"), (2, "D"), (1, "E"), (0, "F")];
        let steps: Vec<Step> = steps.iter().map(step).collect();
        assert_eq!(
            write("SELECT\n'\\'", &steps),
            concat!(
                r#"{"SQL":"SELECT\u000a'\\'","PLAN":[{"STEP":"A","INPUTS":[{"STEP":"B \"b\"","#,
                r#""INPUTS":[{"STEP":"C"},{"STEP":"D"}]},{"STEP":"E"}]},{"STEP":"F"}]}"#
            )
        );
    }
}
