//! The Universal Scalability Law (Gunther, "Guerrilla Capacity Planning", 2007): throughput over
//! load as `X(N) = l N / (1 + s (N - 1) + k N (N - 1))`, fitted to measured points.
//!
//! `N` counts what was varied (sites, clients, hosts), `l` is the throughput of one, `s` (sigma)
//! the share that goes one after another, `k` (kappa) what keeping in step costs each pair.
//!
//! The law is linear in `1/l`, `s/l` and `k/l` once turned to `N / X`: that regression gives the
//! start, and damped Gauss-Newton steps (Levenberg, Marquardt) minimise the squares of the
//! throughputs themselves. Neither `s` nor `k` goes below zero: less than nothing is noise.

use lockstep_base::random::SeededRandom;

/// One measured point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// What was varied; at least 1.
    pub load: f64,
    /// Calls per second.
    pub throughput_per_s: f64,
}

/// A value with half the width of its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Infinite where as many points as parameters leave no measure of doubt.
    pub plus_minus: f64,
}

/// A fitted law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Calls per second of a load of one.
    pub lambda_per_s: Estimate,
    /// Contention.
    pub sigma: Estimate,
    /// Coherence.
    pub kappa: Estimate,
    /// The share of the throughputs' variance that the law explains.
    pub r_squared: f64,
}

/// Points of a law that is known, `(lambda, sigma, kappa)`: N at each load, each with noise
/// of up to a share, which follows from the seed.
pub fn synthetic(
    truth: [f64; 3],
    loads: &[f64],
    (repeats, noise): (u64, f64),
    seed: u64,
) -> Vec<Point> {
    let mut random = SeededRandom::new(seed);
    let mut wobble = || 1.0 + noise * ((random.below(2001) as f64) / 1000.0 - 1.0);
    let mut point =
        |load: &f64| Point { load: *load, throughput_per_s: law(truth, *load) * wobble() };
    (0..repeats).flat_map(|_| loads.iter().map(&mut point).collect::<Vec<_>>()).collect()
}

/// Fewer points than parameters say nothing.
const PARAMETERS: usize = 3;
const MAX_STEPS: usize = 500;

type Vector = [f64; PARAMETERS];
type Matrix = [Vector; PARAMETERS];

impl Fit {
    /// Fits the law.
    ///
    /// # Errors
    /// Fewer than three different loads, a load below 1, a throughput that is not above 0.
    pub fn new(points: &[Point]) -> Result<Fit, String> {
        checked(points)?;
        let mut parameters = start(points);
        let mut damping = 1e-3;
        let mut squares = sum_of_squares(points, parameters);
        for _ in 0..MAX_STEPS {
            let (normal, gradient) = normal_equations(points, parameters);
            let mut damped = normal;
            (0..PARAMETERS).for_each(|i| damped[i][i] += damping * normal[i][i].max(1e-12));
            let Some(inverse) = inverted(damped) else { break };
            let step = times(inverse, gradient);
            let tried = bounded([0, 1, 2].map(|i| parameters[i] + step[i]));
            let tried_squares = sum_of_squares(points, tried);
            if tried_squares <= squares {
                let gain = squares - tried_squares;
                (parameters, squares) = (tried, tried_squares);
                damping = (damping / 10.0).max(1e-15);
                if gain <= squares * 1e-14 {
                    break;
                }
            } else if damping > 1e12 {
                break;
            } else {
                damping *= 10.0;
            }
        }
        Ok(described(points, parameters, squares))
    }

    /// The law's throughput at a load, in calls per second.
    pub fn throughput_per_s(&self, load: f64) -> f64 {
        law([self.lambda_per_s.value, self.sigma.value, self.kappa.value], load)
    }

    /// The load with the highest throughput; `None` where the law has no peak.
    pub fn peak_load(&self) -> Option<f64> {
        let (sigma, kappa) = (self.sigma.value, self.kappa.value);
        (kappa > 0.0).then(|| ((1.0 - sigma).max(0.0) / kappa).sqrt().max(1.0))
    }
}

fn checked(points: &[Point]) -> Result<(), String> {
    for point in points {
        if !(point.load >= 1.0 && point.load.is_finite()) {
            return Err(format!("a load of {} cannot be fitted: loads begin at 1", point.load));
        }
        if !(point.throughput_per_s > 0.0 && point.throughput_per_s.is_finite()) {
            let (load, throughput) = (point.load, point.throughput_per_s);
            return Err(format!("the throughput {throughput} at load {load} is not above 0"));
        }
    }
    let mut loads: Vec<f64> = points.iter().map(|point| point.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    match loads.len() < PARAMETERS {
        true => Err(format!(
            "the scalability law needs points at {PARAMETERS} different loads or more, here are {}",
            loads.len()
        )),
        false => Ok(()),
    }
}

fn law([lambda, sigma, kappa]: Vector, load: f64) -> f64 {
    lambda * load / (1.0 + sigma * (load - 1.0) + kappa * load * (load - 1.0))
}

fn bounded([lambda, sigma, kappa]: Vector) -> Vector {
    [lambda.max(f64::MIN_POSITIVE), sigma.max(0.0), kappa.max(0.0)]
}

fn sum_of_squares(points: &[Point], parameters: Vector) -> f64 {
    let residual = |point: &Point| point.throughput_per_s - law(parameters, point.load);
    points.iter().map(|point| residual(point).powi(2)).sum()
}

/// The regression of `N / X`, each point weighted by how a change of `X` shows there.
fn start(points: &[Point]) -> Vector {
    let mut normal = [[0.0; PARAMETERS]; PARAMETERS];
    let mut right = [0.0; PARAMETERS];
    for point in points {
        let load = point.load;
        let row = [1.0, load - 1.0, load * (load - 1.0)];
        let turned = load / point.throughput_per_s;
        let weight = (point.throughput_per_s.powi(2) / load).powi(2);
        for i in 0..PARAMETERS {
            (0..PARAMETERS).for_each(|j| normal[i][j] += weight * row[i] * row[j]);
            right[i] += weight * row[i] * turned;
        }
    }
    let first = points.iter().map(|point| point.throughput_per_s / point.load);
    let fallback = [first.fold(0.0, f64::max), 0.01, 0.0001];
    let Some(inverse) = inverted(normal) else { return fallback };
    let [a, b, c] = times(inverse, right);
    if a > 0.0 { bounded([1.0 / a, b / a, c / a]) } else { fallback }
}

/// `J'J` and `J'r` at the parameters.
fn normal_equations(points: &[Point], parameters: Vector) -> (Matrix, Vector) {
    let mut normal = [[0.0; PARAMETERS]; PARAMETERS];
    let mut gradient = [0.0; PARAMETERS];
    let [lambda, sigma, kappa] = parameters;
    for point in points {
        let load = point.load;
        let below = 1.0 + sigma * (load - 1.0) + kappa * load * (load - 1.0);
        let value = lambda * load / below;
        let slopes =
            [load / below, -value * (load - 1.0) / below, -value * load * (load - 1.0) / below];
        let residual = point.throughput_per_s - value;
        for i in 0..PARAMETERS {
            (0..PARAMETERS).for_each(|j| normal[i][j] += slopes[i] * slopes[j]);
            gradient[i] += slopes[i] * residual;
        }
    }
    (normal, gradient)
}

fn described(points: &[Point], parameters: Vector, squares: f64) -> Fit {
    let count = points.len();
    let mean = points.iter().map(|point| point.throughput_per_s).sum::<f64>() / count as f64;
    let total: f64 = points.iter().map(|point| (point.throughput_per_s - mean).powi(2)).sum();
    let freedom = count - PARAMETERS;
    let half_width = |place: usize| {
        let (normal, _) = normal_equations(points, parameters);
        let (Some(inverse), true) = (inverted(normal), freedom > 0) else { return f64::INFINITY };
        let variance = squares / freedom as f64 * inverse[place][place];
        student_t_95(freedom) * variance.max(0.0).sqrt()
    };
    let estimate =
        |place: usize| Estimate { value: parameters[place], plus_minus: half_width(place) };
    Fit {
        lambda_per_s: estimate(0),
        sigma: estimate(1),
        kappa: estimate(2),
        r_squared: if total > 0.0 { 1.0 - squares / total } else { 1.0 },
    }
}

/// The two-sided 95 % point of Student's t; after 30 degrees of freedom that of 30, a little wide.
fn student_t_95(freedom: usize) -> f64 {
    const POINTS: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    POINTS[freedom.clamp(1, POINTS.len()) - 1]
}

fn times(matrix: Matrix, vector: Vector) -> Vector {
    matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
}

/// By cofactors, on rows and columns scaled to ones in the diagonal: the parameters differ by
/// many powers of ten.
fn inverted(matrix: Matrix) -> Option<Matrix> {
    let scale = [0, 1, 2].map(|i: usize| matrix[i][i].sqrt());
    if scale.iter().any(|value| !(*value > 0.0 && value.is_finite())) {
        return None;
    }
    let m = [0, 1, 2].map(|i: usize| [0, 1, 2].map(|j: usize| matrix[i][j] / scale[i] / scale[j]));
    let minor = |i: usize, j: usize| {
        let (a, b) = ((i + 1) % 3, (i + 2) % 3);
        let (c, d) = ((j + 1) % 3, (j + 2) % 3);
        m[a][c] * m[b][d] - m[a][d] * m[b][c]
    };
    let determinant = (0..PARAMETERS).map(|j| m[0][j] * minor(0, j)).sum::<f64>();
    if determinant.abs() < 1e-13 {
        return None;
    }
    Some(
        [0, 1, 2].map(|i: usize| {
            [0, 1, 2].map(|j: usize| minor(j, i) / determinant / scale[i] / scale[j])
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: f64, truth: f64, share: f64) -> bool {
        (found - truth).abs() <= truth.abs() * share
    }

    const LOADS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0];

    #[test]
    fn known_coefficients_are_found_again() {
        let truths = [
            [1000.0, 0.02, 0.0005],
            [995.6, 0.0267, 0.000769],
            [5_000_000.0, 0.2, 0.01],
            [10.0, 0.001, 0.00001],
        ];
        for truth in truths {
            let fit = Fit::new(&synthetic(truth, &LOADS, (1, 0.0), 1)).unwrap();
            assert!(is_near(fit.lambda_per_s.value, truth[0], 0.001), "{truth:?} {fit:?}");
            assert!(is_near(fit.sigma.value, truth[1], 0.001), "{truth:?} {fit:?}");
            assert!(is_near(fit.kappa.value, truth[2], 0.001), "{truth:?} {fit:?}");
            assert!(fit.r_squared > 0.999_999);
            let peak = ((1.0 - truth[1]) / truth[2]).sqrt();
            assert!(is_near(fit.peak_load().unwrap(), peak, 0.001));
        }
    }

    #[test]
    fn intervals_hold_the_truth_under_noise() {
        let truth = [1000.0, 0.05, 0.001];
        let mut held = 0;
        for seed in 1..=200 {
            let fit = Fit::new(&synthetic(truth, &LOADS, (5, 0.005), seed)).unwrap();
            assert!(is_near(fit.sigma.value, truth[1], 0.05), "seed {seed}: {fit:?}");
            assert!(is_near(fit.kappa.value, truth[2], 0.05), "seed {seed}: {fit:?}");
            let sigma = fit.sigma;
            held += u32::from((sigma.value - truth[1]).abs() <= sigma.plus_minus);
        }
        // 95 % of 200, within three standard deviations of that count.
        assert!((180..=199).contains(&held), "{held} of 200 intervals hold the truth");
    }

    #[test]
    fn what_scales_evenly_has_no_peak() {
        let fit = Fit::new(&synthetic([100.0, 0.0, 0.0], &LOADS, (1, 0.0), 1)).unwrap();
        assert!(fit.sigma.value < 1e-9 && fit.kappa.value < 1e-9, "{fit:?}");
        assert!(fit.peak_load().is_none_or(|load| load > 1e3));
        // Better than even is held at even.
        let points: Vec<Point> =
            LOADS.iter().map(|n| Point { load: *n, throughput_per_s: n.powf(1.1) }).collect();
        let fit = Fit::new(&points).unwrap();
        assert_eq!((fit.sigma.value, fit.kappa.value), (0.0, 0.0));
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let point = |load, throughput_per_s| Point { load, throughput_per_s };
        let two = [point(1.0, 10.0), point(2.0, 19.0), point(2.0, 20.0)];
        assert_eq!(
            Fit::new(&two).unwrap_err(),
            "the scalability law needs points at 3 different loads or more, here are 2"
        );
        let zero = [point(0.5, 10.0), point(2.0, 19.0), point(3.0, 20.0)];
        assert_eq!(
            Fit::new(&zero).unwrap_err(),
            "a load of 0.5 cannot be fitted: loads begin at 1"
        );
        let idle = [point(1.0, 10.0), point(2.0, 0.0), point(3.0, 20.0)];
        assert_eq!(Fit::new(&idle).unwrap_err(), "the throughput 0 at load 2 is not above 0");
        // Three points fit exactly, and say nothing of their doubt.
        let three = synthetic([10.0, 0.1, 0.01], &[1.0, 4.0, 16.0], (1, 0.0), 1);
        assert_eq!(Fit::new(&three).unwrap().sigma.plus_minus, f64::INFINITY);
    }
}
