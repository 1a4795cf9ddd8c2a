//! The thread that keeps the coarse clock going, for what cannot read the clock itself.

use crate::clock;
use crate::options::Milliseconds;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time between two readings.
const LONGEST: Duration = Duration::from_millis(100);

/// The running thread. Dropping it ends it.
pub(crate) struct Ticker {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts it with readings ten times as fine as what they measure; none where there is nothing
    /// to measure.
    ///
    /// # Errors
    /// The system is out of threads.
    pub(crate) fn start(measured: Option<Milliseconds>) -> io::Result<Option<Ticker>> {
        let Some(measured) = measured else { return Ok(None) };
        let between = (measured.duration() / 10).max(Duration::from_millis(1)).min(LONGEST);
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let builder = std::thread::Builder::new().name("clock".to_string());
        let thread = builder.spawn(move || {
            while !ended.load(Ordering::Acquire) {
                clock::tick();
                std::thread::park_timeout(between);
            }
        })?;
        Ok(Some(Ticker { ends, thread: Some(thread) }))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does nothing that can fail.
            let _ = thread.join();
        }
    }
}
