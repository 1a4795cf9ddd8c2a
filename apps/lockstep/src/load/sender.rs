//! Sends batches to their partitions, several in flight, and finds the rows of a batch that the
//! server refuses: it sends the halves, until single rows are left.

use super::batch::{Batch, CallWriter};
use super::refused::Refused;
use lockstep_client::{
    Call, ClientError, ConnectOptions, Connection, ConnectionIndex, ParameterWriter, Pipeline,
    Routing,
};
use lockstep_types::{Datum, Status};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Batches in flight on a connection.
const IN_FLIGHT: usize = 4;
/// Bytes of rows after which a batch is sent, whatever the number of its rows.
const BATCH_BYTES: usize = 4 << 20;
/// A server that answers nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(120);
/// One wait for answers.
const WAIT: Duration = Duration::from_millis(100);

/// See the module.
pub struct Sender {
    pipeline: Pipeline,
    connections: usize,
    routing: Routing,
    writer: CallWriter,
    batch_rows: usize,
    /// By partition: rows that are not sent yet.
    open: Vec<Batch>,
    /// By context of a call: what it carries.
    sent: Vec<Option<Batch>>,
    free: Vec<usize>,
    spare: Vec<Batch>,
    /// Parts of refused batches.
    again: VecDeque<Batch>,
    /// Answers that are not looked at yet.
    answers: VecDeque<(usize, Answer)>,
    /// Rows that the server took.
    pub loaded: u64,
}

/// What became of a call: the server loaded, refused, or is lost.
type Answer = Result<Result<(), Rejected>, ClientError>;

/// What a server said instead of loading.
#[derive(Debug)]
struct Rejected {
    /// The code on the wire.
    status: i8,
    text: String,
}

impl Rejected {
    /// Whether rows of the batch may be at fault.
    fn may_be_rows(&self) -> bool {
        const OF_DATA: [Status; 3] =
            [Status::GracefulFailure, Status::UserAbort, Status::UnexpectedFailure];
        OF_DATA.iter().any(|status| status.code() == self.status)
    }

    /// What it said, without what stands in front of all such texts.
    /// The rows of a violated constraint are in the record itself.
    fn reason(&self) -> String {
        let text = self.text.strip_prefix("VOLTDB ERROR: ").unwrap_or(&self.text);
        let text = text.strip_prefix("SQL ERROR ").unwrap_or(text);
        let text = text.split("Relevant Tuples:").next().unwrap_or(text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// How a sender sends.
pub struct SenderOptions {
    /// The host.
    pub server: String,
    /// Connections to it.
    pub connections: usize,
    /// Rows of a batch.
    pub batch_rows: usize,
}

impl Sender {
    /// Connects and learns where partitions are.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn connect(
        connection: &mut Connection,
        options: &SenderOptions,
        writer: CallWriter,
    ) -> Result<Sender, String> {
        let text = |error: ClientError| error.to_string();
        let mut routing = Routing::default();
        let mut parameters = ParameterWriter::default();
        parameters.text("TOPO").integer(0);
        let topology = connection.call("@Statistics", &parameters).map_err(text)?;
        routing.read_topology(&topology.view()).map_err(text)?;
        let connect = ConnectOptions::default();
        let mut pipeline = Pipeline::new(&connect).map_err(text)?;
        for _ in 0..options.connections {
            pipeline.connect(&options.server).map_err(text)?;
        }
        Ok(Sender {
            pipeline,
            connections: options.connections,
            routing,
            writer,
            batch_rows: options.batch_rows,
            open: Vec::new(),
            sent: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            again: VecDeque::new(),
            answers: VecDeque::new(),
            loaded: 0,
        })
    }

    /// Adds a row; sends its batch when that is full.
    ///
    /// # Errors
    /// The server is lost or takes no rows any more; a file cannot be written.
    pub fn push(
        &mut self,
        row: &[u8],
        key: Option<&[u8]>,
        (line, text): (u64, &[u8]),
        refused: &mut Refused,
    ) -> Result<(), String> {
        let key_datum = key.map_or(Datum::Null, Datum::Bytes);
        let partition = self.routing.partition_of(key_datum).map_or(0, |p| p.index());
        while self.open.len() <= partition {
            self.open.push(Batch::new(self.open.len()));
        }
        let batch = &mut self.open[partition];
        batch.push(row, key, line, text);
        if batch.len() >= self.batch_rows || batch.bytes() >= BATCH_BYTES {
            self.send_open(partition, refused)?;
        }
        Ok(())
    }

    /// Sends all that is left and waits for the answers.
    ///
    /// # Errors
    /// As for `push`.
    pub fn finish(&mut self, refused: &mut Refused) -> Result<(), String> {
        for partition in 0..self.open.len() {
            if !self.open[partition].is_empty() {
                self.send_open(partition, refused)?;
            }
        }
        self.wait_until(refused, |sender| {
            sender.pipeline.in_flight() == 0 && sender.again.is_empty()
        })
    }

    fn send_open(&mut self, partition: usize, refused: &mut Refused) -> Result<(), String> {
        let mut next = self.spare.pop().unwrap_or_default();
        next.clear(partition);
        let batch = std::mem::replace(&mut self.open[partition], next);
        let connection = self.connection_of(&batch);
        self.wait_until(refused, |sender| sender.pipeline.in_flight_on(connection) < IN_FLIGHT)?;
        self.submit(batch)
    }

    /// Rows of a partition keep to one connection, which keeps them in order.
    fn connection_of(&self, batch: &Batch) -> ConnectionIndex {
        ConnectionIndex(batch.partition % self.connections)
    }

    fn submit(&mut self, batch: Batch) -> Result<(), String> {
        let connection = self.connection_of(&batch);
        let place = self.free.pop().unwrap_or_else(|| {
            self.sent.push(None);
            self.sent.len() - 1
        });
        let procedure = self.writer.procedure();
        let mut call = Call::new(procedure, self.writer.write(&batch), Instant::now());
        call.context = place as u64;
        self.sent[place] = Some(batch);
        self.pipeline.submit(connection, &call).map_err(|error| error.to_string())?;
        self.poll(Duration::ZERO)
    }

    fn poll(&mut self, timeout: Duration) -> Result<(), String> {
        let answers = &mut self.answers;
        let polled = self.pipeline.poll(timeout, |completion, _| {
            let answer = completion.result.map(|response| match response.is_success() {
                true => Ok(()),
                false => {
                    let text = response.status_text.unwrap_or_default().to_string();
                    Err(Rejected { status: response.status, text })
                }
            });
            answers.push_back((completion.context as usize, answer));
        });
        polled.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Takes answers until something holds.
    fn wait_until(
        &mut self,
        refused: &mut Refused,
        done: impl Fn(&Sender) -> bool,
    ) -> Result<(), String> {
        let mut heard = Instant::now();
        loop {
            while let Some((place, answer)) = self.answers.pop_front() {
                heard = Instant::now();
                self.take(place, answer, refused)?;
            }
            if done(self) {
                return Ok(());
            }
            match self.again.pop_front() {
                // What was refused is sent again one part at a time.
                Some(part) => self.submit(part)?,
                None => self.poll(WAIT)?,
            }
            if heard.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(format!("the server has not answered for {seconds} s"));
            }
        }
    }

    fn take(&mut self, place: usize, answer: Answer, refused: &mut Refused) -> Result<(), String> {
        let Some(batch) = self.sent.get_mut(place).and_then(Option::take) else { return Ok(()) };
        self.free.push(place);
        match answer {
            Ok(Ok(())) => self.loaded += batch.len() as u64,
            Ok(Err(rejected)) if !rejected.may_be_rows() => {
                let (line, _) = batch.row(0);
                let reason = rejected.reason();
                return Err(format!("the server takes no rows (from line {line} on): {reason}"));
            }
            Ok(Err(rejected)) if batch.len() == 1 => {
                let (line, text) = batch.row(0);
                refused.add((line, 0), &rejected.reason(), text)?;
            }
            Ok(Err(_)) => self.again.extend(batch.halves()),
            Err(error) => {
                let (first, last) = (batch.row(0).0, batch.row(batch.len() - 1).0);
                return Err(format!(
                    "{error}; whether the rows of lines {first} to {last} are loaded is not known"
                ));
            }
        }
        self.spare.push(batch);
        Ok(())
    }
}
