//! Votes in a loop, for instruction counts: `callgrind` on this, with 0 and with N votes.

#[path = "../tests/it/support.rs"]
#[allow(dead_code)]
mod support;
#[path = "../tests/it/voter.rs"]
#[allow(dead_code)]
mod voter;

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let (mut database, procedure) = voter::host();
    let mut out = Vec::new();
    let mut random = lockstep_base::random::SeededRandom::new(1);
    let mut parameters = Vec::new();
    for _ in 0..count {
        let phone = random.between(2_000_000_000, 8_999_999_999);
        parameters.push(voter::vote_parameters(phone, random.between(1, 3) as i32, 2));
    }
    for call in &parameters {
        out.clear();
        voter::vote(&mut database, &procedure, call.bytes(), &mut out);
    }
}
