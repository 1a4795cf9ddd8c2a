//! Another host as the links have it: which messages of it are taken. What was said in a session of
//! before it went out is void. What is said in a later one is of a process that takes its place, or
//! of the same one that takes part again, and counts from then on.

/// Messages that are kept of a host before this one knows that it takes part.
const EARLY_MESSAGES_MAX: usize = 1 << 12;

/// What messages of another host, `M`, are worth.
#[derive(Debug)]
pub struct OtherHost<M> {
    /// Nothing is sent to it nor taken of it but what is of the control plane: it is lost, or
    /// messages between the hosts are.
    is_out: bool,
    /// A session has begun since it went out.
    has_later_session: bool,
    /// What was said in that session.
    early: Vec<M>,
}

impl<M> Default for OtherHost<M> {
    fn default() -> OtherHost<M> {
        OtherHost { is_out: false, has_later_session: false, early: Vec::new() }
    }
}

impl<M> OtherHost<M> {
    /// Whether nothing is sent to it.
    pub fn is_out(&self) -> bool {
        self.is_out
    }

    /// A session has begun.
    pub fn note_session(&mut self) {
        self.has_later_session = self.is_out;
        self.early.clear();
        assert!(!self.has_later_session || self.is_out, "it is later than the one that is out");
    }

    /// A message has come: it is given back if it is to be taken now. Where this host may be about
    /// to hear that the other one takes part again, it is kept.
    ///
    /// # Errors
    /// Too many are kept.
    pub fn hear(&mut self, message: M) -> Result<Option<M>, String> {
        assert!(self.early.is_empty() || self.has_later_session, "what is kept is of that session");
        if !self.is_out {
            assert!(self.early.is_empty(), "nothing is overtaken");
            return Ok(Some(message));
        }
        if self.has_later_session {
            if self.early.len() >= EARLY_MESSAGES_MAX {
                return Err("it says too much before it takes part".to_string());
            }
            self.early.push(message);
        }
        Ok(None)
    }

    /// The session with it is over although it serves, and so messages are lost. Whether that is
    /// news.
    pub fn cut_off(&mut self) -> bool {
        let is_news = !std::mem::replace(&mut self.is_out, true);
        assert!(!is_news || self.early.is_empty(), "nothing is kept of a host that was heard");
        is_news
    }

    /// The host is lost. True if the session is to end: it is not with a process that takes its
    /// place.
    pub fn go_out(&mut self) -> bool {
        self.is_out = true;
        assert!(self.early.is_empty() || self.has_later_session, "what is kept is of that session");
        !self.has_later_session
    }

    /// The host takes part again: gives what it has said by then.
    pub fn come_back(&mut self) -> Vec<M> {
        (self.is_out, self.has_later_session) = (false, false);
        let early = std::mem::take(&mut self.early);
        assert!(early.len() <= EARLY_MESSAGES_MAX, "few messages are kept");
        early
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_takes_the_place_of_a_lost_one_is_heard_when_it_takes_part() {
        let mut other = OtherHost::default();
        other.note_session();
        assert_eq!(other.hear(1), Ok(Some(1)));
        // Its session ends, and another one begins before the others have put the host out.
        assert!(other.cut_off() && other.is_out());
        assert_eq!(other.hear(2), Ok(None), "it was said by the process that is lost");
        other.note_session();
        assert_eq!(other.hear(3), Ok(None));
        assert!(!other.go_out(), "the session with its successor stays");
        assert_eq!(other.hear(4), Ok(None));
        assert_eq!(other.come_back(), [3, 4]);
        assert_eq!(other.hear(5), Ok(Some(5)));
    }

    #[test]
    fn nothing_is_heard_of_a_host_that_was_put_out_until_it_takes_part_again() {
        let mut other = OtherHost::default();
        assert!(other.go_out(), "its session ends");
        assert_eq!(other.hear(1), Ok(None));
        other.note_session();
        assert_eq!(other.hear(2), Ok(None));
        other.note_session();
        assert_eq!(other.hear(3), Ok(None));
        assert_eq!(other.come_back(), [3], "of the last session");
        assert!(!other.is_out());
        // Too much is refused.
        other.cut_off();
        other.note_session();
        assert!((0..EARLY_MESSAGES_MAX as i32).all(|it| other.hear(it).is_ok()));
        assert!(other.hear(0).is_err());
    }
}
