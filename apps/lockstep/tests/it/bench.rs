//! `lockstep bench` and `lockstep demo`, for a moment each.

use super::{host, lockstep, text};

fn read_json(path: &std::path::Path) -> serde_json::Value {
    let json = std::fs::read_to_string(path).expect("a file was written");
    std::fs::remove_file(path).expect("the file is ours");
    serde_json::from_str(&json).expect("JSON")
}

fn bench(name: &str, arguments: &[&str]) -> serde_json::Value {
    let file = std::env::temp_dir().join(format!("lockstep-{name}-{}.json", std::process::id()));
    let mut all = vec!["bench", "voter", "--duration", "0.3", "--warmup", "0.1", "--json"];
    all.push(file.to_str().expect("a path of text"));
    all.extend(arguments);
    let output = lockstep(&all, "");
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("= accepted"), "{shown}");
    let json = read_json(&file);
    for key in ["throughput_per_s", "transactions", "duration_s", "accepted"] {
        assert!(json[key].as_f64().expect(key) > 0.0, "{key}: {json}");
    }
    for key in ["p50", "p95", "p99", "p999", "max"] {
        assert!(json["latency_us"][key].is_u64(), "{key}: {json}");
    }
    assert_eq!(json["errors"], 0);
    assert_eq!(json["consistent"], true);
    json
}

#[test]
fn voter_is_measured_over_tcp_in_both_forms_and_both_loops() {
    let host = host();
    let server = host.client_address().to_string();
    let closed = ["--servers", &server, "--connections", "3", "--pipeline", "8"];
    let json = bench("closed", &closed);
    assert_eq!(json["options"]["connections"], 3);
    assert_eq!(json["votes_before"], 0);
    let sql = ["--servers", &server, "--connections", "2", "--procedures", "sql"];
    let second = bench("sql", &sql);
    assert_eq!(second["votes_before"], json["votes_after"]);
    let rate = 2000.0;
    let open = ["--servers", &server, "--seed", "2", "--rate", "2000"];
    let per_s = bench("open", &open)["throughput_per_s"].as_f64().expect("a number");
    assert!(per_s < rate * 1.5, "{per_s}");
    host.stop().expect("the host stops");
}

#[test]
fn voter_is_measured_embedded() {
    let json = bench("embedded", &["--embedded"]);
    assert_eq!(json["options"]["embedded"], true);
}

#[test]
fn the_demo_shows_standings_and_what_is_next() {
    let output = lockstep(&["demo", "--duration", "1"], "");
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    for part in ["Ada Quill    ####", "= accepted", "latency p99.9", "What to try next"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
