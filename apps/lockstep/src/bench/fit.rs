//! `lockstep bench fit`: the scalability law over the points of a file, or over synthetic ones.

use super::common::{number, outputs};
use super::shown::{option_rows, write_outputs};
use clap::{Arg, ArgGroup, ArgMatches, Command, value_parser};
use lockstep_bench::run::study::law::{FittedPoints, read_points};
use lockstep_bench::usl::{Point, synthetic};
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

/// The longest file of points.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Its command line.
pub fn command() -> Command {
    let numbers = |name: &'static str, value: &'static str, help: &'static str| {
        let parser = value_parser!(f64);
        let argument = Arg::new(name).long(name).value_name(value).value_parser(parser);
        argument.value_delimiter(',').help(help)
    };
    Command::new("fit")
        .about("Fit the scalability law to points: of a file, or synthetic ones of a known law")
        .arg(
            Arg::new("points")
                .long("points")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Lines of load,throughput; the first one may name them"),
        )
        .arg(numbers(
            "synthetic",
            "LAMBDA,SIGMA,KAPPA",
            "Make points of this law; the fit must find it within 5 %",
        ))
        .group(ArgGroup::new("of").args(["points", "synthetic"]).required(true))
        .arg(
            numbers("loads", "LIST", "Loads of synthetic points")
                .default_value("1,2,4,8,12,16,24,32,48"),
        )
        .arg(
            numbers("noise", "PERCENT", "Noise of synthetic points, each way")
                .value_delimiter(None)
                .default_value("0.5"),
        )
        .arg(number("repeats", "N", "5", "Synthetic points of each load"))
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .default_value("1")
                .help("What the noise follows from"),
        )
        .arg(Arg::new("title").long("title").value_name("TEXT").help("What the points are"))
        .args(outputs())
}

/// Fits the law, shows it, and writes what is asked for.
///
/// # Errors
/// The points cannot be read or fitted; a file cannot be written.
pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let title = arguments.get_one::<String>("title");
    let (fitted, options) = match arguments.get_one::<PathBuf>("points") {
        Some(file) => {
            let named = |error: String| format!("{}: {error}", file.display());
            let (load, points) = read(file).and_then(|text| read_points(&text)).map_err(named)?;
            let name = title.map_or_else(|| file.display().to_string(), String::clone);
            let load = load.unwrap_or_else(|| "load".to_string());
            let fitted = FittedPoints::new(&name, &load, points, None).map_err(named)?;
            (fitted, json!({ "points": file.display().to_string() }))
        }
        None => made(arguments, title)?,
    };
    for (name, value) in fitted.rows() {
        println!("{name:22}{value}");
    }
    write_outputs(
        arguments,
        &|| fitted.charts(),
        &|| fitted.page(&option_rows(&options)),
        &|| fitted.json(),
    )?;
    Ok(if fitted.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(file: &PathBuf) -> Result<String, String> {
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| error.to_string())?;
    let mut limited = opened.take(MAX_FILE_BYTES + 1);
    limited.read_to_string(&mut text).map_err(|error| error.to_string())?;
    match text.len() as u64 > MAX_FILE_BYTES {
        true => Err(format!("it is over {MAX_FILE_BYTES} bytes")),
        false => Ok(text),
    }
}

/// Synthetic points, and what they were made of.
fn made(arguments: &ArgMatches, title: Option<&String>) -> Result<(FittedPoints, Value), String> {
    let numbers = |name: &str| -> Vec<f64> {
        arguments.get_many::<f64>(name).into_iter().flatten().copied().collect()
    };
    let given = numbers("synthetic");
    let truth: [f64; 3] = given.as_slice().try_into().map_err(|_| {
        format!("--synthetic takes LAMBDA,SIGMA,KAPPA: three numbers, not {}", given.len())
    })?;
    let is_law = truth[0] > 0.0 && truth.iter().all(|value| *value >= 0.0 && value.is_finite());
    if !is_law {
        return Err("--synthetic: LAMBDA is above 0, SIGMA and KAPPA are 0 or more".to_string());
    }
    let (loads, noise) = (numbers("loads"), numbers("noise").first().copied().unwrap_or(0.0));
    if !(0.0..100.0).contains(&noise) {
        return Err(format!("--noise {noise}: 0 to less than 100 percent"));
    }
    let repeats = super::common::count(arguments, "repeats");
    let seed = arguments.get_one::<u64>("seed").copied().unwrap_or(1);
    let points: Vec<Point> = synthetic(truth, &loads, (repeats.min(1000), noise / 100.0), seed);
    let name = title.map_or("Synthetic points of a known law", String::as_str);
    let options = json!({
        "lambda": truth[0], "sigma": truth[1], "kappa": truth[2], "noise_percent": noise,
        "repeats": repeats, "seed": seed,
    });
    Ok((FittedPoints::new(name, "load", points, Some(truth))?, options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench;

    fn fit(line: &str) -> Result<FittedPoints, String> {
        let line = format!("bench fit {line}");
        let matches = bench::command().try_get_matches_from(line.split_whitespace());
        let matches = matches.map_err(|error| error.to_string())?;
        let arguments = matches.subcommand().expect("fit").1;
        made(arguments, None).map(|(fitted, _)| fitted)
    }

    #[test]
    fn synthetic_points_are_made_as_told() {
        let fitted = fit("--synthetic 500,0.02,0.0004 --repeats 3 --noise 0.2").expect("a law");
        assert_eq!(fitted.points.len(), 27);
        assert!(fitted.is_good(), "{:?}", fitted.rows());
        for (line, says) in [
            ("--synthetic 500,0.02", "three numbers, not 2"),
            ("--synthetic=-1,0,0", "LAMBDA is above 0"),
            ("--synthetic 1,NaN,0", "LAMBDA is above 0"),
            ("--synthetic 1,0,0 --noise 100", "0 to less than 100"),
            ("--synthetic 1,0,0 --loads 1,2", "3 different loads"),
            ("--synthetic 1,0,0 --points x", "cannot be used with"),
            ("", "required"),
        ] {
            let error = fit(line).err().unwrap_or_default();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
