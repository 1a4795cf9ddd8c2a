//! `lockstep bench` and `lockstep demo`, for a moment each.

use super::{host, lockstep, text};
use lockstep_client::{ConnectOptions, Connection};

pub fn read_json(path: &std::path::Path) -> serde_json::Value {
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
    let (_, whole) = shown.split_once("whole run, warm-up included:\n").expect("a head");
    assert!(whole.trim_start().starts_with("votes accepted"), "{shown}");
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
    let count = |json: &serde_json::Value, key: &str| json[key].as_u64().expect("a count");
    assert_eq!(count(&second, "votes_before"), count(&json, "accepted"));
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

/// Runs a workload for a moment; its exit code, its JSON, what it printed.
pub fn workload(name: &str, arguments: &[&str]) -> (bool, serde_json::Value, String) {
    let mut place = format!("lockstep-{name}-{}", std::process::id());
    arguments.iter().for_each(|argument| place.push_str(argument));
    let file = std::env::temp_dir().join(place.replace([':', '/', '.'], "_") + ".json");
    let mut all = vec!["bench", name, "--json", file.to_str().expect("a path of text")];
    all.extend(arguments);
    if !arguments.contains(&"--duration") {
        all.extend(["--duration", "0.3", "--warmup", "0.1"]);
    }
    let output = lockstep(&all, "");
    let shown = text(&output.stdout) + &text(&output.stderr);
    let json = if file.exists() { read_json(&file) } else { serde_json::Value::Null };
    (output.status.success(), json, shown)
}

fn good_workload(name: &str, arguments: &[&str]) -> serde_json::Value {
    let (good, json, shown) = workload(name, arguments);
    assert!(good, "{name} {arguments:?}: {shown}");
    assert!(shown.contains("holds  ") && !shown.contains("WRONG"), "{shown}");
    assert!(json["throughput_per_s"].as_f64().expect("a number") > 0.0, "{json}");
    assert_eq!((&json["errors"], &json["consistent"]), (&0.into(), &true.into()), "{json}");
    json
}

#[test]
fn workloads_run_over_tcp_in_all_paces_and_check_what_they_left() {
    let host = host();
    let server = host.client_address().to_string();
    let servers = ["--servers", server.as_str()];
    let small = |more: &[&'static str]| [&servers[..], &["--rows", "500"], more].concat();
    let json = good_workload("key-value", &small(&["--clients", "5", "--connections", "2"]));
    assert_eq!(json["loaded_rows"], 500);
    for kind in ["READ", "UPDATE"] {
        assert!(json["per_transaction"][kind]["count"].as_u64().expect("a count") > 0, "{json}");
    }
    let json = good_workload("key-value", &small(&["--rate", "500", "--no-load", "--mix", "b"]));
    assert_eq!(json["loaded_rows"], serde_json::Value::Null);
    let per_s = json["throughput_per_s"].as_f64().expect("a number");
    assert!(per_s < 750.0, "{per_s}");
    let json = good_workload("bank", &[&servers[..], &["--accounts", "100"]].concat());
    assert!(json["per_transaction"]["TRANSFER"]["count"].as_u64().expect("a count") > 0);
    // A rate of lock-store counts records, a ramp as well.
    let records = ["--records", "100", "--ramp", "30", "--ramp-p99-ms", "1", "--clients", "40"];
    let (_, json, shown) = workload("lock-store", &[&servers[..], &records[..]].concat());
    let step = &json["steps"][0];
    let reached = step["reached_per_s"].as_f64().expect("a rate");
    assert!(reached < 60.0, "ten transactions are one record: {shown}");
    assert!(step["delays_us"]["LOCK"]["p90"].is_u64(), "{json}");
    // A rate that nothing reaches ends a ramp.
    let ramp = [&servers[..], &["--accounts", "100", "--ramp", "1e6", "--ramp-from", "200"]];
    let json = good_workload("mp-mix", &ramp.concat());
    let steps = json["steps"].as_array().expect("steps");
    assert_eq!(steps.last().expect("a step")["good"], false, "{json}");
    host.stop().expect("the host stops");
}

#[test]
fn records_are_locked_by_each_way_to_find_them() {
    for (way, more) in [
        ("global-index", &["--rate", "200"][..]),
        ("find-then-lock", &["--records", "1000"]),
        // So few records that sessions meet.
        ("one-transaction", &["--records", "40"]),
    ] {
        let host = host();
        let server = host.client_address().to_string();
        let shape = ["--servers", &server, "--secondary-key", way, "--content-bytes", "300"];
        let shape = [&shape[..], &["--clients", "20", "--think-min-us", "100"]].concat();
        let json = good_workload("lock-store", &[&shape[..], more].concat());
        for step in ["LOCK", "WRITE"] {
            let count = json["per_transaction"][step]["count"].as_u64().expect("a count");
            assert!(count > 0 && json["delays_us"][step]["p90"].is_u64(), "{json}");
        }
        assert!(json["writes"].as_u64().expect("a count") > 0, "{json}");
        if way == "one-transaction" {
            assert!(json["refused_locks"].as_u64().expect("a count") > 0, "{json}");
        }
        assert_eq!(json["expired_locks"], 0, "{json}");
        for other in ["global-index", "find-then-lock", "one-transaction"] {
            let shape = ["--servers", &server, "--secondary-key", other];
            if other != way {
                let (good, _, shown) = workload("lock-store", &shape);
                assert!(!good && shown.contains("another form of lock-store"), "{way} {shown}");
            }
        }
        host.stop().expect("the host stops");
    }
    let shape = ["--embedded", "--think-max-us", "9000", "--lock-ms", "9"];
    let (good, _, shown) = workload("lock-store", &shape);
    assert!(!good && shown.contains("lets locks expire within"), "{shown}");
}

#[test]
fn wrong_scales_and_missing_tables_are_refused() {
    let host = host();
    let server = host.client_address().to_string();
    let run = |more: &[&'static str]| {
        let (good, _, shown) =
            workload("key-value", &[&["--servers", server.as_str()], more].concat());
        assert!(!good, "{shown}");
        shown
    };
    let shown = run(&["--no-load"]);
    assert!(shown.contains("the server has no tables of key-value"), "{shown}");
    good_workload("key-value", &["--servers", &server, "--rows", "9"]);
    let shown = run(&["--rows", "10"]);
    assert!(shown.contains("key_value has 9 rows, this run is for 10"), "{shown}");
    let shown = run(&["--rows", "9", "--content-bytes", "50"]);
    assert!(shown.contains("contents of 1000 bytes, this run is for 50"), "{shown}");
    for (name, scale, says) in [
        ("bank", "--accounts", "there are 9 accounts, this run is for 10"),
        ("lock-store", "--records", "record has 9 rows, this run is for 10"),
    ] {
        good_workload(name, &["--servers", &server, scale, "9", "--clients", "4"]);
        let (good, _, shown) = workload(name, &["--servers", &server, scale, "10"]);
        assert!(!good && shown.contains(says), "{shown}");
    }
    host.stop().expect("the host stops");
    let (good, _, shown) = workload("bank", &["--servers", &server]);
    assert!(!good && shown.contains(&format!("{server}: ")), "{shown}");
}

#[test]
fn what_a_database_has_is_held_to_the_checks_alone() {
    let host = host();
    let server = host.client_address().to_string();
    let scale = ["--servers", &server, "--warehouses", "1", "--scale-divisor", "100"];
    let check = || {
        let output = lockstep(&[&["bench", "tpcc", "--check-only"], &scale[..]].concat(), "");
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    let (good, shown) = check();
    assert!(!good && shown.contains("the server has no rows of tpcc to check"), "{shown}");
    good_workload("tpcc", &scale);
    let (good, shown) = check();
    assert!(good && shown.matches("holds").count() == 13, "{shown}");
    let mut connection =
        Connection::connect(&server, &ConnectOptions::default()).expect("a connection");
    connection.sql("UPDATE warehouse SET w_ytd = w_ytd + 1;").expect("it is changed");
    let (good, shown) = check();
    assert!(!good && shown.contains("WRONG  condition 1, W_YTD = sum(D_YTD)"), "{shown}");
    assert_eq!(shown.matches("WRONG").count(), 2, "conditions 1 and 8: {shown}");
    host.stop().expect("the host stops");
}

#[test]
fn tpcc_runs_over_two_sites_by_warehouse_and_by_district() {
    for (partitioning, more) in
        [("warehouse", &["--spec", "--waits", "0"][..]), ("district", &["--delivery", "split"][..])]
    {
        let host = host();
        let server = host.client_address().to_string();
        let scale = ["--servers", &server, "--warehouses", "3", "--scale-divisor", "100"];
        let own = ["--partitioning", partitioning, "--duration", "1", "--warmup", "0"];
        let json = good_workload("tpcc", &[&scale[..], &own[..], more].concat());
        assert_eq!(json["checks"].as_array().map(Vec::len), Some(13), "{json}");
        assert!(json["tpmc"].as_f64().expect("a number") > 0.0, "{json}");
        assert!(json["NEW_ORDER"]["latency"]["p99"].as_f64().is_some(), "{json}");
        // The same rows again, and another scale.
        good_workload("tpcc", &[&scale[..], &own[..], &["--no-load"], more].concat());
        // In Java, and native again: each run makes its procedures.
        for form in ["java", "native"] {
            if form == "java" && lockstep_bench::java::workloads_jar().is_empty() {
                println!("skipped: no JDK");
                continue;
            }
            let form = ["--no-load", "--procedures", form];
            good_workload("tpcc", &[&scale[..], &own[..], &form, more].concat());
        }
        let scale = ["--servers", &server, "--warehouses", "2", "--scale-divisor", "100"];
        let (good, _, shown) = workload("tpcc", &[&scale[..], &own[..], more].concat());
        assert!(!good && shown.contains("has 3 warehouses, this run is for 2"), "{shown}");
        let other = if partitioning == "warehouse" { "district" } else { "warehouse" };
        let shape = ["--servers", &server, "--warehouses", "3", "--scale-divisor", "100"];
        let (good, _, shown) = workload(
            "tpcc",
            &[&shape[..], &["--partitioning", other, "--money", "decimal"], more].concat(),
        );
        assert!(!good && shown.contains("are of another form of tpcc"), "{shown}");
        host.stop().expect("the host stops");
    }
}

/// Runs TATP on rows of earlier runs, which find as often as those have left it.
fn runs_again(arguments: &[&str]) {
    let (_, json, shown) = workload("tatp", arguments);
    assert!(json["throughput_per_s"].as_f64().is_some_and(|per_s| per_s > 0.0), "{shown}");
    assert_eq!(json["errors"], 0, "{shown}");
}

#[test]
fn tatp_runs_over_two_sites_in_all_modes() {
    for mode in ["global-index", "lookup", "read-all", "update-all", "ask-all"] {
        let host = host();
        let server = host.client_address().to_string();
        let scale = ["--servers", &server, "--subscribers", "300", "--alternate-key", mode];
        let json = good_workload("tatp", &scale);
        // The same tables for another way, and for another number of subscribers.
        let same_tables = ["read-all", "update-all", "ask-all"];
        for other in ["global-index", "lookup", "read-all", "update-all", "ask-all"] {
            let scale = ["--servers", &server, "--subscribers", "300", "--alternate-key", other];
            let sql = [&scale[..], &["--procedures", "sql"]].concat();
            if other == "global-index" {
                let (good, _, shown) = workload("tatp", &sql);
                assert!(!good && shown.contains("DeleteCallForwardingByNumber"), "{shown}");
            } else if other == mode {
                runs_again(&sql);
            }
            if [mode, other].iter().all(|mode| same_tables.contains(mode)) {
                runs_again(&scale);
            } else if other != mode {
                let (good, _, shown) = workload("tatp", &scale);
                assert!(!good && shown.contains("another form of tatp"), "{mode} {other} {shown}");
            }
        }
        let scale = ["--servers", &server, "--subscribers", "301", "--alternate-key", mode];
        let (good, _, shown) = workload("tatp", &scale);
        assert!(!good && shown.contains("300 subscribers, this run is for 301"), "{shown}");
        for kind in ["UPDATE_LOCATION", "GET_ACCESS_DATA"] {
            assert!(
                json["per_transaction"][kind]["count"].as_u64().expect("a count") > 0,
                "{mode}"
            );
        }
        host.stop().expect("the host stops");
    }
}

#[test]
fn workloads_run_embedded() {
    good_workload("key-value", &["--embedded", "--rows", "100", "--keys", "uniform"]);
    good_workload("contention", &["--embedded"]);
    good_workload("bank", &["--embedded", "--accounts", "10"]);
    let (good, _, shown) = workload("mp-mix", &["--embedded", "--no-load"]);
    assert!(!good && shown.contains("no tables"), "{shown}");
}

/// A path for a file of a test, by its ending.
pub fn place(ending: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("lockstep-bench-{}-{ending}", std::process::id()))
}

fn take(path: &std::path::Path) -> String {
    let text = std::fs::read_to_string(path).expect("a file was written");
    std::fs::remove_file(path).expect("the file is ours");
    text
}

#[test]
fn a_run_is_drawn_and_reported_in_files_that_load_nothing() {
    let host = host();
    let server = host.client_address().to_string();
    let (plot, page) = (place("run.svg"), place("run.html"));
    let files = ["--plot", plot.to_str().expect("text"), "--report", page.to_str().expect("text")];
    let shape = ["--servers", server.as_str(), "--rows", "77", "--keys", "uniform"];
    let json = good_workload("key-value", &[&shape[..], &files[..]].concat());
    assert!(json["load_processor_s"].as_f64().is_some(), "{json}");
    // The host runs in this process.
    assert!(json["server_processor_s"].as_f64().is_some(), "{json}");
    assert_eq!(json["server"]["partitions"], "2", "{json}");
    assert!(json["machine"]["kernel"].is_string(), "{json}");
    let (plot, page) = (take(&plot), take(&page));
    for text in [&plot, &page] {
        assert!(text.contains("Throughput over time") && text.contains(">UPDATE<"), "{text}");
        for loader in ["https://", "src=", "<script", "@import", "url(", "href"] {
            assert!(!text.contains(loader), "{loader}");
        }
    }
    for part in ["<td>rows</td><td>77</td>", "<td>cores</td>", "<td>partitions</td><td>2</td>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    host.stop().expect("the host stops");
}

/// Runs a study for a moment; whether it was good, its JSON, what it printed, its page.
fn scale(name: &str, arguments: &[&str]) -> (bool, serde_json::Value, String, String) {
    let (json, plot, page) = (
        place(&format!("{name}.json")),
        place(&format!("{name}.svg")),
        place(&format!("{name}.html")),
    );
    let mut all = vec!["bench", "scale"];
    all.extend(arguments);
    all.extend(["--duration", "0.1", "--warmup", "0"]);
    for (option, file) in [("--json", &json), ("--plot", &plot), ("--report", &page)] {
        all.extend([option, file.to_str().expect("a path of text")]);
    }
    let output = lockstep(&all, "");
    let shown = text(&output.stdout) + &text(&output.stderr);
    if !json.exists() {
        return (output.status.success(), serde_json::Value::Null, shown, String::new());
    }
    let plot = take(&plot);
    assert!(plot.contains("throughput") && plot.contains("processor time"), "{plot}");
    (output.status.success(), read_json(&json), shown, take(&page))
}

#[test]
fn studies_fit_the_law_over_clients_and_draw_it() {
    let host = host();
    let server = host.client_address().to_string();
    let (good, json, shown, page) = scale(
        "clients",
        &[
            "key-value",
            "--servers",
            &server,
            "--rows",
            "100",
            "--vary",
            "clients",
            "1,2,4,8,30",
            "--leave-out",
            "30",
            "--repeats",
            "2",
        ],
    );
    assert!(good, "{shown}");
    let points = json["points"].as_array().expect("points");
    assert_eq!(points.len(), 5, "{json}");
    assert!(points.iter().all(|point| point["repeats"].as_array().map(Vec::len) == Some(2)));
    assert_eq!((&points[4]["left_out"], &points[3]["left_out"]), (&true.into(), &false.into()));
    let law = &json["scalability_law"];
    for key in ["lambda_per_s", "sigma", "kappa"] {
        assert!(law[key]["plus_minus_95"].as_f64().is_some(), "{json}");
    }
    assert!(shown.contains("left out of the fit") && shown.contains("sigma"), "{shown}");
    assert_eq!(json["options"]["clients"][4], "30", "{json}");
    for part in ["law: σ", "measured, left out of the fit", "<td>cores</td>", "<td>rows</td>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    host.stop().expect("the host stops");
}

#[test]
fn studies_start_hosts_of_their_own_for_sites_and_scales() {
    let shape = ["voter", "--repeats", "1", "--clients", "20", "--connections", "2"];
    let (good, json, shown, _) =
        scale("sites", &[&shape[..], &["--vary", "sites", "1,2"]].concat());
    assert!(good, "{shown}");
    assert!(shown.contains("not fitted: the scalability law needs points at 3"), "{shown}");
    let repeat = &json["points"][1]["repeats"][0];
    assert!(repeat["server_peak_bytes"].as_u64().expect("bytes") > 1 << 20, "{json}");
    assert!(repeat["server_cores"].as_f64().is_some(), "{json}");
    assert_eq!(json["server"]["partitions"], "2", "{json}");
    // A point that does not run ends the study, with what there is.
    let shape = ["tpcc", "--scale-divisor", "100", "--repeats", "1"];
    let (good, json, shown, _) =
        scale("warehouses", &[&shape[..], &["--vary", "warehouses", "1,40000"]].concat());
    assert!(!good && shown.contains("did not run: "), "{shown}");
    assert_eq!(json["points"][0]["values"]["warehouses"], 1, "{json}");
    assert!(json["points"][1]["failed"].is_string(), "{json}");
}

#[test]
fn the_matrix_of_lock_store_is_one_command() {
    let (good, json, shown, page) = scale(
        "matrix",
        &[
            "lock-store",
            "--records",
            "500",
            "--rate",
            "300",
            "--repeats",
            "1",
            "--vary",
            "clients",
            "10,20",
            "--vary",
            "payload",
            "100,400",
            "--vary",
            "burst",
            "1,5",
        ],
    );
    assert!(good, "{shown}");
    assert_eq!(json["points"].as_array().map(Vec::len), Some(8), "{json}");
    let lock = &json["points"][7]["repeats"][0]["per_transaction"]["LOCK"]["latency_us"];
    for percentile in ["p20", "p40", "p50", "p60", "p80", "p90"] {
        assert!(lock[percentile].as_f64().expect("a delay") > 0.0, "{json}");
    }
    for part in ["delays of LOCK", "delays of WRITE", "p50, payload 400, burst 5"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn workers_share_a_load_and_their_figures_add_up() {
    let host = host();
    let server = host.client_address().to_string();
    let shape = ["--servers", &server, "--accounts", "100", "--clients", "9"];
    // The check holds only if each worker's deposits are counted.
    let json = good_workload("bank", &[&shape[..], &["--workers", "3"]].concat());
    assert_eq!(json["workers"].as_array().map(Vec::len), Some(3), "{json}");
    assert_eq!(json["workers"][0]["clock_ahead_us"], serde_json::Value::Null, "{json}");
    assert!(json["load_processor_s"].as_f64().is_some(), "{json}");
    let paced = ["--workers", "2", "--rate", "400", "--duration", "0.5", "--warmup", "0"];
    let json = good_workload("bank", &[&shape[..], &paced[..]].concat());
    let per_s = json["throughput_per_s"].as_f64().expect("a number");
    assert!(per_s < 500.0, "two workers make one rate: {per_s}");
    // On a host that is started for the run.
    let own = ["--start", "2", "--accounts", "100", "--workers", "2"];
    let json = good_workload("mp-mix", &own);
    assert_eq!(json["server"]["partitions"], "2", "{json}");
    // A worker that was started elsewhere.
    let mut worker = std::process::Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["bench", "worker", "--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut line = String::new();
    let mut output = std::io::BufReader::new(worker.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
    let address = line.trim().split_once("ready on ").expect("it is ready").1.to_string();
    for seed in ["1", "2"] {
        let at = ["--workers", &address, "--seed", seed];
        let json = good_workload("bank", &[&shape[..], &at[..]].concat());
        assert!(json["workers"][0]["clock_ahead_us"].is_i64(), "{json}");
    }
    let (good, _, shown) = workload(
        "bank",
        &[&shape[..2], &["--clients", "2", "--workers", "3", "--accounts", "100"]].concat(),
    );
    assert!(!good && shown.contains("3 workers need as many clients, not 2"), "{shown}");
    worker.kill().expect("it is ours");
    worker.wait().expect("it ends");
    host.stop().expect("the host stops");
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

#[test]
fn the_demo_of_a_cluster_kills_a_host_and_loses_no_vote() {
    // Times by which a busy machine suspects no host that runs.
    let patient = ["heartbeat_interval_ms=100", "suspect_after_ms=1500", "lease_ms=1000"];
    let options = patient.iter().flat_map(|option| ["--option", option]);
    let demo = ["demo", "--hosts", "3", "--kfactor", "1", "--kill-after", "1", "--seconds", "6"];
    let demo = demo.into_iter().chain(["--rate", "300"]).chain(options);
    let output = lockstep(&demo.collect::<Vec<&str>>(), "");
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    for part in
        ["is killed", "host 2 is down", "host 0 leads, epoch 2", "longest gap", "0 lost, 0 doubled"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn a_demo_without_copies_kills_no_host() {
    let demo = ["demo", "--hosts", "2", "--kfactor", "0", "--kill-after", "1"];
    let output = lockstep(&demo, "");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("needs --kfactor 1 or 2"), "{}", text(&output.stderr));
}
