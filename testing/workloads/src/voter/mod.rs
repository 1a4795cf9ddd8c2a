//! Voter: callers vote for contestants by telephone, a few times each at most. One small
//! transaction that reads three tables, inserts a row and keeps two views: the workload that
//! in-memory transaction systems are compared by.

mod area_codes;
pub mod load;
mod vote;

pub use area_codes::AREA_CODES;
pub use vote::Vote;

use lockstep_base::random::SeededRandom;

/// Tables, partitioning and views.
pub const SCHEMA: &str = "\
CREATE TABLE contestants (
  contestant_number INTEGER NOT NULL,
  contestant_name VARCHAR(50) NOT NULL,
  PRIMARY KEY (contestant_number)
);
CREATE TABLE area_code_state (
  area_code SMALLINT NOT NULL,
  state VARCHAR(2) NOT NULL,
  PRIMARY KEY (area_code)
);
CREATE TABLE votes (
  phone_number BIGINT NOT NULL,
  state VARCHAR(2) NOT NULL,
  contestant_number INTEGER NOT NULL
);
PARTITION TABLE votes ON COLUMN phone_number;
CREATE VIEW v_votes_by_phone_number (phone_number, num_votes) AS
  SELECT phone_number, COUNT(*) FROM votes GROUP BY phone_number;
CREATE VIEW v_votes_by_contestant_number_state (contestant_number, state, num_votes) AS
  SELECT contestant_number, state, COUNT(*) FROM votes GROUP BY contestant_number, state;
";

/// The procedure as native code.
pub const NATIVE_PROCEDURE: &str =
    "CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone_number FROM NATIVE Vote;";

/// The procedure as SQL statements only. It cannot branch, so it inserts and answers with what a
/// caller needs to judge the vote: whether the contestant is known, how often this number voted
/// before, and the state of its area code (0 when there is none).
pub const SQL_PROCEDURE: &str = "\
CREATE PROCEDURE VoteSql PARTITION ON TABLE votes COLUMN phone_number PARAMETER 1 AS BEGIN
  SELECT contestant_number FROM contestants WHERE contestant_number = ?;
  SELECT num_votes FROM v_votes_by_phone_number WHERE phone_number = ?;
  SELECT state FROM area_code_state WHERE area_code = ?;
  INSERT INTO votes (phone_number, state, contestant_number) VALUES (?, ?, ?);
END;
";

/// Votes of one number that count.
pub const MAX_VOTES_PER_NUMBER: i64 = 2;
/// Contestants of the classic run.
pub const CONTESTANTS: i32 = 6;

/// What `Vote` answers: the vote counts.
pub const ACCEPTED: i64 = 0;
/// What `Vote` answers: there is no such contestant.
pub const UNKNOWN_CONTESTANT: i64 = 1;
/// What `Vote` answers: this number has voted as often as it may.
pub const OVER_LIMIT: i64 = 2;

const NAMES: [&str; 12] = [
    "Ada Quill",
    "Bruno Fenn",
    "Carla Moss",
    "Dmitri Hale",
    "Elena Park",
    "Farid Stone",
    "Greta Lind",
    "Hugo Marsh",
    "Ines Vale",
    "Jonas Reed",
    "Kira Dunn",
    "Leo Frost",
];

/// The statements that fill the replicated tables, for `contestants` contestants.
pub fn load_statements(contestants: i32) -> Vec<String> {
    let mut statements = Vec::new();
    for number in 1..=contestants {
        let name = NAMES[(number as usize - 1) % NAMES.len()];
        statements.push(format!("INSERT INTO contestants VALUES ({number}, '{name}');"));
    }
    for (code, state) in AREA_CODES {
        statements.push(format!("INSERT INTO area_code_state VALUES ({code}, '{state}');"));
    }
    statements
}

/// One call of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhoneCall {
    /// Ten digits, the area code in front.
    pub phone_number: i64,
    /// Usually of a contestant; one call in a hundred is not.
    pub contestant: i32,
}

/// Draws calls: area codes and contestants at random, some contestants more popular, a few
/// numbers and contestants wrong.
#[derive(Debug, Clone)]
pub struct PhoneCalls {
    random: SeededRandom,
    contestants: i32,
}

impl PhoneCalls {
    /// Calls that follow from a seed.
    pub fn new(seed: u64, contestants: i32) -> PhoneCalls {
        PhoneCalls { random: SeededRandom::new(seed), contestants }
    }

    /// The next call.
    #[inline]
    pub fn draw(&mut self) -> PhoneCall {
        let code = AREA_CODES[self.random.below(AREA_CODES.len() as u64) as usize].0;
        let line = self.random.below(10_000_000) as i64;
        // The smaller of two draws makes low numbers popular, as callers have favourites.
        let draw = |random: &mut SeededRandom| random.below(self.contestants as u64) as i32 + 1;
        let contestant = match self.random.below(100) {
            0 => 999,
            _ => draw(&mut self.random).min(draw(&mut self.random)),
        };
        PhoneCall { phone_number: i64::from(code) * 10_000_000 + line, contestant }
    }
}
