//! The manifest: a text of lines, made and read.

use super::{FORMAT, PART_FORMAT, WHOLE_FORMAT};
use crate::directory::ClusterId;
use lockstep_txn::log_entry::LogSource;
use lockstep_types::TransactionId;
use std::fmt::Write;

const FIRST_LINE: &str = "LockstepDB snapshot";
/// The longest manifest that is read.
pub(super) const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// What the files of a snapshot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// Rows as they are in memory: can be restored.
    Native,
    /// Text: to be loaded by whatever reads CSV.
    Csv,
}

/// The last log entry of a partition whose effect a snapshot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionPosition {
    /// Who ordered it.
    pub source: LogSource,
    /// The sequence number.
    pub sequence: u64,
    /// The last transaction id that the partition had given; 0 where the snapshot does not say.
    pub transaction: TransactionId,
    /// The digest of the partition's changes up to there; 0 where none was kept.
    pub digest: u64,
}

/// How a table lies over the partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// Each partition has some rows.
    Partitioned,
    /// Each partition has all rows.
    Replicated,
    /// A materialized view: computed again when the number of partitions changes.
    Derived,
    /// The entries of a global index: each partition has some.
    Entries,
}

/// A table of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// Its name.
    pub name: String,
    /// How it lies over the partitions.
    pub kind: TableKind,
    /// Its rows; of a replicated table those of one partition.
    pub rows: u64,
}

/// A file of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Its name, without the folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// CRC-32 of all of it.
    pub checksum: u32,
}

/// What one of several hosts wrote: its part of a snapshot of all, or one of its own copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPart {
    /// The host.
    pub host: u32,
    /// It has all copies of the host, whether they lead or follow, with everything that they need:
    /// the host begins with it, and nobody else has a use for it.
    pub is_own: bool,
    /// The partitions whose rows it has, in their order.
    pub partitions: Vec<u32>,
}

/// What a manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The release that saved it; empty if unknown.
    pub release: String,
    /// The cluster that was saved.
    pub cluster: ClusterId,
    /// The snapshot's name.
    pub nonce: String,
    /// What the files hold.
    pub content: ContentKind,
    /// The transaction at which it was taken.
    pub transaction: i64,
    /// When, milliseconds since 1970.
    pub created_ms: i64,
    /// Which part of a snapshot of several hosts it is; none for one of a single host, which has
    /// everything.
    pub part: Option<HostPart>,
    /// The version of the catalog.
    pub catalog_version: u64,
    /// What the procedures were planned with, for the host that saved them; empty if unknown.
    pub planning: Vec<u8>,
    /// By partition, the last log entry whose effect the snapshot has.
    pub positions: Vec<PartitionPosition>,
    /// The tables, in the order of their names.
    pub tables: Vec<TableEntry>,
    /// All other files.
    pub files: Vec<FileEntry>,
    /// The schema as DDL.
    pub schema: String,
}

impl TableKind {
    /// The word in the manifest.
    pub fn word(self) -> &'static str {
        match self {
            TableKind::Partitioned => "partitioned",
            TableKind::Replicated => "replicated",
            TableKind::Derived => "view",
            TableKind::Entries => "entries",
        }
    }
}

impl ContentKind {
    /// The word in the manifest.
    pub fn word(self) -> &'static str {
        match self {
            ContentKind::Native => "native",
            ContentKind::Csv => "csv",
        }
    }
}

impl Manifest {
    /// The transaction at which it was taken.
    pub fn transaction_id(&self) -> TransactionId {
        TransactionId(self.transaction as u64)
    }

    /// Whether it is of all copies of one of several hosts.
    pub fn is_own(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.is_own)
    }

    /// The partitions whose rows are missing: those that other hosts saved.
    pub fn lacked_partitions(&self) -> impl Iterator<Item = u32> + '_ {
        let has = |partition: &u32| {
            self.part.as_ref().is_none_or(|part| part.partitions.contains(partition))
        };
        (0..self.positions.len() as u32).filter(move |partition| !has(partition))
    }

    /// Adds what another host saved of the same snapshot.
    ///
    /// # Errors
    /// It is of another one, or both have the same partition: what is wrong.
    pub(super) fn join(&mut self, other: Manifest) -> Result<(), String> {
        let (Some(own), Some(part)) = (&mut self.part, other.part) else {
            return Err("it is of one host alone, and there are parts of several".to_string());
        };
        if own.is_own || part.is_own {
            return Err("it is of the copies of one host, for its own starts".to_string());
        }
        let is_same = self.transaction == other.transaction
            && self.cluster == other.cluster
            && self.content == other.content
            && self.positions.len() == other.positions.len();
        if !is_same {
            return Err("it belongs to another snapshot of this name".to_string());
        }
        if let Some(both) = part.partitions.iter().find(|one| own.partitions.contains(one)) {
            return Err(format!("another host saved partition {both} too"));
        }
        for partition in &part.partitions {
            let number = *partition as usize;
            self.positions[number] = other.positions[number];
        }
        own.partitions.extend(part.partitions);
        own.partitions.sort_unstable();
        let is_ordered = own.partitions.is_sorted_by(|one, next| one < next);
        assert!(is_ordered, "each partition is in one part");
        self.files.extend(other.files);
        for table in &mut self.tables {
            let found = other.tables.iter().find(|other| other.name == table.name);
            table.rows += found.map_or(0, |found| found.rows);
        }
        Ok(())
    }

    /// The manifest as the file has it. An error names what no line can hold.
    pub(super) fn encode(&self) -> Result<Vec<u8>, String> {
        let names = self.tables.iter().map(|table| &table.name);
        let names = names.chain(self.files.iter().map(|file| &file.name));
        for name in names.chain([&self.nonce]) {
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(format!("the name '{name}' has a space in it, or nothing"));
            }
        }
        let format = match &self.part {
            None => WHOLE_FORMAT,
            Some(part) if part.is_own => FORMAT,
            Some(_) => PART_FORMAT,
        };
        let mut text = format!("{FIRST_LINE}\nformat {format}\n");
        self.write_lines(&mut text).map_err(|error| error.to_string())?;
        let checksum = crc32fast::hash(text.as_bytes());
        text.push_str(&format!("checksum {checksum:08x}\n"));
        Ok(text.into_bytes())
    }

    fn write_lines(&self, out: &mut String) -> std::fmt::Result {
        if !self.release.is_empty() {
            writeln!(out, "release {}", self.release)?;
        }
        writeln!(out, "cluster {}\nnonce {}", self.cluster, self.nonce)?;
        writeln!(out, "content {}\ntransaction {}", self.content.word(), self.transaction)?;
        writeln!(out, "created_ms {}", self.created_ms)?;
        writeln!(out, "catalog_version {}", self.catalog_version)?;
        if !self.planning.is_empty() {
            write!(out, "planning ")?;
            self.planning.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            writeln!(out)?;
        }
        writeln!(out, "partitions {}", self.positions.len())?;
        if let Some(HostPart { host, is_own, partitions }) = &self.part {
            write!(out, "host {host} {}", if *is_own { "keeps" } else { "has" })?;
            partitions.iter().try_for_each(|partition| write!(out, " {partition}"))?;
            writeln!(out)?;
        }
        for (partition, position) in self.positions.iter().enumerate() {
            let PartitionPosition { source, sequence, transaction, digest: _ } = position;
            let LogSource { epoch, incarnation } = source;
            let transaction = transaction.0;
            writeln!(out, "position {partition} {incarnation} {sequence} {epoch} {transaction}")?;
        }
        if self.positions.iter().any(|position| position.digest != 0) {
            write!(out, "digests")?;
            self.positions.iter().try_for_each(|position| write!(out, " {}", position.digest))?;
            writeln!(out)?;
        }
        for TableEntry { name, kind, rows } in &self.tables {
            writeln!(out, "table {name} {} {rows}", kind.word())?;
        }
        for FileEntry { name, bytes, checksum } in &self.files {
            writeln!(out, "file {name} {bytes} {checksum:08x}")?;
        }
        writeln!(out, "schema {}\n{}", self.schema.len(), self.schema)
    }

    /// The format of a manifest, whatever else it is.
    pub(super) fn format(bytes: &[u8]) -> Option<u32> {
        let rest = bytes.strip_prefix(FIRST_LINE.as_bytes())?.strip_prefix(b"\nformat ")?;
        let digits = rest.split(|byte| *byte == b'\n').next()?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Reads a manifest; an error says where in the bytes and what is wrong.
    pub(super) fn decode(bytes: &[u8]) -> Result<Manifest, (u64, String)> {
        let whole = "the file is no whole manifest";
        let not_text = |_| (0, "this is no manifest of a snapshot".to_string());
        let text = std::str::from_utf8(bytes).map_err(not_text)?;
        if !text.starts_with(FIRST_LINE) {
            return Err((0, "this is no manifest of a snapshot".to_string()));
        }
        let cut = text.strip_suffix('\n').and_then(|text| text.rfind('\n')).map(|at| at + 1);
        let (checked, last) = text.split_at(cut.unwrap_or(0));
        if !last.starts_with("checksum ") {
            return Err((bytes.len() as u64, whole.to_string()));
        }
        let mut lines = Lines { text: checked, at: 0 };
        lines.word(FIRST_LINE).map_err(|_| (0, whole.to_string()))?;
        lines.number::<u32>("format")?;
        if last != format!("checksum {:08x}\n", crc32fast::hash(checked.as_bytes())) {
            return Err((checked.len() as u64, "the manifest's checksum is wrong".to_string()));
        }
        lines.manifest()
    }
}

/// The lines of a manifest as they are read.
struct Lines<'a> {
    text: &'a str,
    at: usize,
}

type Bad = (u64, String);

impl<'a> Lines<'a> {
    fn bad(&self, wanted: &str) -> Bad {
        (self.at as u64, format!("a line with '{wanted}' was expected"))
    }

    /// The next line, without its end.
    fn peek(&self) -> &'a str {
        let rest = &self.text[self.at..];
        rest.split_once('\n').map_or(rest, |(line, _)| line)
    }

    fn skip(&mut self, line: &str) {
        self.at = (self.at + line.len() + 1).min(self.text.len());
    }

    /// A line that is just this.
    fn word(&mut self, word: &str) -> Result<(), Bad> {
        if self.peek() != word {
            return Err(self.bad(word));
        }
        self.skip(word);
        Ok(())
    }

    /// What a line with this first word has after it, if the next is one.
    fn maybe(&mut self, word: &str) -> Option<&'a str> {
        let line = self.peek();
        let rest = line.strip_prefix(word)?.strip_prefix(' ')?;
        self.skip(line);
        Some(rest)
    }

    fn field(&mut self, word: &str) -> Result<&'a str, Bad> {
        self.maybe(word).ok_or_else(|| self.bad(word))
    }

    fn number<T: std::str::FromStr>(&mut self, word: &str) -> Result<T, Bad> {
        let bad = self.bad(word);
        self.field(word)?.parse().map_err(|_| bad)
    }

    fn manifest(&mut self) -> Result<Manifest, Bad> {
        let release = self.maybe("release").unwrap_or_default().to_string();
        let bad = self.bad("cluster");
        let cluster = ClusterId::parse(self.field("cluster")?).ok_or(bad)?;
        let nonce = self.field("nonce")?.to_string();
        let bad = self.bad("content");
        let content = match self.field("content")? {
            "native" => ContentKind::Native,
            "csv" => ContentKind::Csv,
            _ => return Err(bad),
        };
        let transaction = self.number("transaction")?;
        let created_ms = self.number("created_ms")?;
        let catalog_version = self.number("catalog_version")?;
        let bad = self.bad("planning");
        let planning = self.maybe("planning").map_or(Some(Vec::new()), bytes_of).ok_or(bad)?;
        let partitions: u32 = self.number("partitions")?;
        let part = self.part(partitions)?;
        let mut positions = Vec::new();
        for partition in 0..partitions {
            positions.push(self.position(partition)?);
        }
        self.digests(&mut positions)?;
        let mut tables = Vec::new();
        while self.peek().starts_with("table ") {
            tables.push(self.table()?);
        }
        let mut files = Vec::new();
        while self.peek().starts_with("file ") {
            files.push(self.file()?);
        }
        let length: usize = self.number("schema")?;
        let schema = self.text.get(self.at..self.at.saturating_add(length));
        let schema = schema.ok_or_else(|| self.bad("schema"))?.to_string();
        if self.text.get(self.at + length..) != Some("\n") {
            return Err(((self.at + length) as u64, "the schema has another length".to_string()));
        }
        Ok(Manifest {
            release,
            cluster,
            nonce,
            content,
            transaction,
            created_ms,
            part,
            catalog_version,
            planning,
            positions,
            tables,
            files,
            schema,
        })
    }

    /// Which part of a snapshot of several hosts it is, if it is one.
    fn part(&mut self, partition_count: u32) -> Result<Option<HostPart>, Bad> {
        let bad = self.bad("host");
        let Some(line) = self.maybe("host") else { return Ok(None) };
        let mut words = line.split(' ');
        let host = words.next().and_then(|word| word.parse().ok());
        let is_own = match words.next() {
            Some("has") => Some(false),
            Some("keeps") => Some(true),
            _ => None,
        };
        let partitions: Option<Vec<u32>> = words.map(|word| word.parse().ok()).collect();
        match (host, is_own, partitions) {
            (Some(host), Some(is_own), Some(partitions))
                if partitions.is_sorted_by(|one, next| one < next)
                    && partitions.last().is_some_and(|last| *last < partition_count) =>
            {
                Ok(Some(HostPart { host, is_own, partitions }))
            }
            _ => Err(bad),
        }
    }

    fn position(&mut self, partition: u32) -> Result<PartitionPosition, Bad> {
        let bad = self.bad("position");
        let parts: Vec<u64> =
            self.field("position")?.split(' ').filter_map(|word| word.parse().ok()).collect();
        match parts[..] {
            // Before format 3 there was the first epoch only.
            [number, incarnation, sequence] if number == u64::from(partition) => {
                let source = LogSource::of_run(incarnation);
                Ok(PartitionPosition { source, sequence, ..PartitionPosition::default() })
            }
            [number, incarnation, sequence, epoch, transaction]
                if number == u64::from(partition) =>
            {
                let epoch = u32::try_from(epoch).map_err(|_| bad)?;
                let (source, transaction) =
                    (LogSource { epoch, incarnation }, TransactionId(transaction));
                Ok(PartitionPosition { source, sequence, transaction, digest: 0 })
            }
            _ => Err(bad),
        }
    }

    /// By partition, the digest of its changes, if they were kept.
    fn digests(&mut self, positions: &mut [PartitionPosition]) -> Result<(), Bad> {
        let bad = self.bad("digests");
        let Some(line) = self.maybe("digests") else { return Ok(()) };
        let digests: Vec<u64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        if digests.len() != positions.len() {
            return Err(bad);
        }
        for (position, digest) in positions.iter_mut().zip(digests) {
            position.digest = digest;
        }
        Ok(())
    }

    fn table(&mut self) -> Result<TableEntry, Bad> {
        let bad = self.bad("table");
        let parts: Vec<&str> = self.field("table")?.split(' ').collect();
        let [name, kind, rows] = parts[..] else { return Err(bad) };
        let kind = match kind {
            "partitioned" => TableKind::Partitioned,
            "replicated" => TableKind::Replicated,
            "view" => TableKind::Derived,
            "entries" => TableKind::Entries,
            _ => return Err(bad),
        };
        let rows = rows.parse().map_err(|_| bad)?;
        Ok(TableEntry { name: name.to_string(), kind, rows })
    }

    fn file(&mut self) -> Result<FileEntry, Bad> {
        let bad = self.bad("file");
        let parts: Vec<&str> = self.field("file")?.split(' ').collect();
        let [name, bytes, checksum] = parts[..] else { return Err(bad) };
        let numbers = (bytes.parse(), u32::from_str_radix(checksum, 16));
        match numbers {
            (Ok(bytes), Ok(checksum)) if !name.contains('/') => {
                Ok(FileEntry { name: name.to_string(), bytes, checksum })
            }
            _ => Err(bad),
        }
    }
}

/// The bytes that hexadecimal digits stand for.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(byte).collect()
}
