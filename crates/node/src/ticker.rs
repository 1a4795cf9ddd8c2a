//! The thread that keeps the coarse clock going, for what cannot read the clock itself.

use crate::clock;
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
    /// Starts it with readings ten times as fine as what they measure; none for 0.
    ///
    /// # Errors
    /// The system is out of threads.
    pub(crate) fn start(measured_ms: u64) -> io::Result<Option<Ticker>> {
        if measured_ms == 0 {
            return Ok(None);
        }
        let between = Duration::from_millis((measured_ms / 10).max(1)).min(LONGEST);
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
