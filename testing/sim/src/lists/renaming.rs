//! Lists that have another key for a while: the entries of the global index go and come back.

use super::{Form, Lists};
use crate::walk::Step;

impl Lists {
    /// Perhaps takes a list away, only for others never to see that: the transaction gives it back
    /// or fails.
    pub(super) fn rename(&mut self, form: Form, steps: &mut Vec<Step>) {
        let away = |key| [Step::Rename(key), Step::Round];
        match form {
            Form::Indexed => {
                let (key, other) = (self.draw_key(), self.draw_key());
                match self.world.random.below(12) {
                    0 => steps.extend([away(key).as_slice(), &[Step::Rename(-2 - key)]].concat()),
                    1 if key != other => steps.extend([Step::Rename(key), Step::Break(other)]),
                    2 => steps.extend([away(key).as_slice(), &[Step::Abort]].concat()),
                    _ => {}
                }
            }
            Form::LedChange(key) if self.world.random.chance(2, 3) => {
                steps.extend(away(key));
                steps.push(match self.world.random.chance(5, 6) {
                    true => Step::Rename(-2 - key),
                    false => Step::Abort,
                });
            }
            _ => {}
        }
    }
}
