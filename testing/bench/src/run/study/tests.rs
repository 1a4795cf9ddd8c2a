//! Studies of points that follow a known law.

use super::report::{charts, json, page, table};
use super::{DELAYS, Delays, Repeat, Study, StudyPoint};
use serde_json::json;

fn repeat(throughput_per_s: f64) -> Repeat {
    let delays = |name: &str, us: f64| Delays {
        name: name.to_string(),
        per_s: throughput_per_s / 2.0,
        at: [us; DELAYS.len()],
        p95: us * 2.0,
        p99: us * 3.0,
    };
    Repeat {
        throughput_per_s,
        all: delays("all", 1000.0),
        kinds: vec![delays("LOCK", 700.0), delays("WRITE", 1300.0)],
        load_cores: 0.5,
        server_cores: Some(1.0),
        server_bytes: None,
        aborted: 0,
        errors: 0,
        wrong: Vec::new(),
        good: true,
    }
}

/// Three runs of each load, by the law with sigma 0.05 and kappa 0.002, a little apart.
fn study(left_out: &[u64]) -> Study {
    let law = |n: f64| 1000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.002 * n * (n - 1.0));
    let point = |load: u64| {
        let rate = if load == 5 { 10.0 } else { law(load as f64) };
        StudyPoint {
            values: vec![load],
            repeats: [0.999, 1.0, 1.001].map(|part| repeat(rate * part)).into(),
            failed: None,
            left_out: left_out.contains(&load),
        }
    };
    Study {
        workload: "voter".to_string(),
        varied: vec!["sites".to_string()],
        points: [1, 2, 4, 5, 8, 16, 32].map(point).into(),
        fits: true,
        interrupted: false,
        server: Vec::new(),
    }
}

#[test]
fn the_law_is_found_without_the_points_that_are_left_out() {
    let with = study(&[5]);
    let fit = with.fit().expect("sites are fitted").expect("it fits");
    assert!((fit.sigma.value - 0.05).abs() < 0.0025, "{fit:?}");
    assert!((fit.kappa.value - 0.002).abs() < 0.0001, "{fit:?}");
    let without = study(&[]).fit().expect("sites are fitted").expect("it fits");
    assert!(without.r_squared < 0.9, "the point that lies off counts: {without:?}");
    let text = table(&with);
    for part in ["left out of the fit", "sigma (contention)    0.0500", "peak", "r²", "± "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let chart = &charts(&with)[0];
    let names: Vec<usize> = chart.series.iter().map(|series| series.points.len()).collect();
    assert_eq!(names, [18, 101, 3], "measured, curve, left out");
    let json = json(&with, &json!({ "seed": 1 }));
    assert_eq!(json["points"][3]["left_out"], true);
    assert!(json["scalability_law"]["sigma"]["plus_minus_95"].as_f64().expect("a number") > 0.0);
    assert!(json["scalability_law"]["peak_load"].as_f64().expect("a number") > 20.0);
}

#[test]
fn combinations_are_drawn_as_lines_of_the_first_thing() {
    let mut study = Study {
        workload: "lock-store".to_string(),
        varied: ["clients", "payload"].map(str::to_string).into(),
        ..Study::default()
    };
    for clients in [10, 20] {
        for payload in [100, 4000] {
            let values = vec![clients, payload];
            let repeats = vec![repeat((clients * 100) as f64)];
            study.points.push(StudyPoint { values, repeats, ..StudyPoint::default() });
        }
    }
    assert!(study.fit().is_none() && study.is_good());
    let charts = charts(&study);
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    assert_eq!(
        titles,
        ["throughput", "latency", "processor time", "delays of LOCK", "delays of WRITE"]
            .map(|title| format!("lock-store: {title}"))
    );
    assert_eq!(charts[0].series[1].name, "median of the runs, payload 4000");
    assert_eq!(charts[0].series[1].points, [(10.0, 1000.0), (20.0, 2000.0)]);
    assert_eq!(charts[3].series[0].points, [(10.0, 0.7), (20.0, 0.7)]);
    study.points[3].failed = Some("out of memory".to_string());
    study.points[3].repeats.clear();
    assert!(!study.is_good());
    let shown = table(&study);
    assert!(shown.contains("did not run: out of memory"), "{shown}");
    study.interrupted = true;
    let html = page("a study", &study, &[]).to_html();
    assert!(html.contains("PARTIAL") && html.contains("<td>LOCK</td><td>10</td><td>100</td>"));
}
