//! Work with files, beside the control thread: a file system may take its time, or not answer at
//! all, and everything else goes on meanwhile. Each piece of work has a thread of its own, and what
//! follows from it is done by the control thread.

use super::Control;
use lockstep_types::Failure;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What the control thread does with a result.
type Then = Box<dyn FnOnce(&mut Control) + Send>;

/// The pieces of work that are in progress.
pub(super) struct FileWork {
    sender: Sender<Then>,
    receiver: Receiver<Then>,
    /// Those that calls asked for.
    calls: u64,
}

impl FileWork {
    pub(super) fn new() -> FileWork {
        let (sender, receiver) = channel();
        FileWork { sender, receiver, calls: 0 }
    }
}

impl Control {
    /// Does `work` for a call, and `then` with what it gave.
    ///
    /// # Errors
    /// As many calls as the host lets wait for file systems do so; the system is out of threads.
    pub(super) fn with_files<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut Control, T) + Send + 'static,
    ) -> Result<(), Failure> {
        let limit = self.facts.options.max_file_calls.get();
        if self.files.calls >= limit {
            return Err(Failure::graceful(format!(
                "too many calls wait for a file system (limit {limit}, option max_file_calls): \
                 retry later"
            )));
        }
        let then = move |control: &mut Control, given| {
            control.files.calls -= 1;
            then(control, given);
        };
        self.with_own_files(work, then).map_err(|error| {
            Failure::unexpected(format!("the system gives no thread for the call: {error}"))
        })?;
        self.files.calls += 1;
        Ok(())
    }

    /// The same for the host itself, which sees to it that there is one at a time.
    ///
    /// # Errors
    /// The system is out of threads.
    pub(super) fn with_own_files<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut Control, T) + Send + 'static,
    ) -> io::Result<()> {
        let (sender, bell) = (self.files.sender.clone(), std::sync::Arc::clone(&self.bell));
        let builder = std::thread::Builder::new().name("files".to_string());
        builder.spawn(move || {
            let given = work();
            // The control thread ends with the host: then nobody waits for this.
            let _ = sender.send(Box::new(move |control| then(control, given)));
            bell.ring();
        })?;
        Ok(())
    }

    /// Goes on with what file systems have answered.
    pub(super) fn attend_to_files(&mut self) {
        while let Ok(then) = self.files.receiver.try_recv() {
            then(self);
        }
    }
}
