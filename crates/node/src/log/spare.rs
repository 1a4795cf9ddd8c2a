//! Makes the file of the log's next segment on a thread of its own, slowly, so that no group
//! commit waits for a file that grows.

use lockstep_durability::command_log::{LogWriter, SpareOrder};
use lockstep_env::Disk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two pieces of a file; the disk serves the log meanwhile.
const PAUSE: Duration = Duration::from_millis(4);
/// After an attempt that failed.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The making of one file after the other.
pub(super) struct SpareMaker {
    disk: Arc<dyn Disk>,
    under_way: Option<UnderWay>,
    /// Not before.
    next: Option<Instant>,
}

struct UnderWay {
    order: SpareOrder,
    thread: JoinHandle<bool>,
    given_up: Arc<AtomicBool>,
}

impl SpareMaker {
    /// For the log on a disk.
    pub fn new(disk: Arc<dyn Disk>) -> SpareMaker {
        SpareMaker { disk, under_way: None, next: None }
    }

    /// Begins a file if the writer wants one, and tells it of one that is done.
    pub fn look_after(&mut self, writer: &mut LogWriter) {
        if let Some(done) = self.under_way.take_if(|under_way| under_way.thread.is_finished()) {
            let is_there = done.thread.join().unwrap_or(false);
            self.next = (!is_there).then(|| Instant::now() + TRY_AGAIN);
            writer.spare_is_made(done.order, is_there);
        }
        if self.under_way.is_some() || self.next.is_some_and(|next| Instant::now() < next) {
            return;
        }
        let Some(order) = writer.spare_to_make() else { return };
        match self.begin(&order) {
            Ok(begun) => self.under_way = Some(begun),
            Err(error) => {
                tracing::debug!("no thread makes the log's next file: {error}");
                self.next = Some(Instant::now() + TRY_AGAIN);
                writer.spare_is_made(order, false);
            }
        }
    }

    fn begin(&self, order: &SpareOrder) -> std::io::Result<UnderWay> {
        let given_up = Arc::new(AtomicBool::new(false));
        let (disk, own, stop) = (Arc::clone(&self.disk), order.clone(), Arc::clone(&given_up));
        let builder = std::thread::Builder::new().name("log-spare".to_string());
        let thread = builder.spawn(move || {
            let made = own.make(&*disk, &mut || {
                std::thread::park_timeout(PAUSE);
                !stop.load(Ordering::Acquire)
            });
            // Without it the log's thread makes the file as it goes.
            made.unwrap_or_else(|error| {
                tracing::debug!("the log's next file was not made: {error}");
                false
            })
        })?;
        Ok(UnderWay { order: order.clone(), thread, given_up })
    }
}

impl Drop for SpareMaker {
    /// Nobody else writes to the directory after the end of its log.
    fn drop(&mut self) {
        if let Some(under_way) = self.under_way.take() {
            under_way.given_up.store(true, Ordering::Release);
            under_way.thread.thread().unpark();
            // Its end is all that matters.
            let _ = under_way.thread.join();
        }
    }
}
