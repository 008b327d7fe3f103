//! Mean and covariance of rows with gaps, by maximum likelihood under normality.
//!
//! The E-step needs of each pattern of gaps its count, mean and comoment alone: C, its products
//! around the mean of all. Of the columns that a pattern has and those that it lacks, a step inverts
//! a matrix of the fewer. With K the inverse of the covariance of those it has, `A = K C K - n K` is
//! what it says of the covariance S; with G the sum of these the expected products of the completed
//! rows are `N S + S G S`. With P the inverse of S, once for all patterns, the columns that are
//! missing have covariance `V = P_mm^-1` and coefficients `B = -V P_mo` given the others, and the
//! products are C, `B C` and `B C B' + n V`.
//! Anderson's mixing of the last steps takes the place of thousands of plain ones: near the end of
//! steps that are longer the fewer rows have a pair, as EM moves its product by their share of it.
//! The likelihood never falls, as a mixture that lowers it gives way to the plain step.
//!
//! Columns of which no row has both are never compared: the likelihood says nothing of their
//! covariance given the others. They are taken as independent given the others, which completes the
//! covariance with the largest determinant (Dempster 1972).
//!
//! Sources: Dempster, Laird and Rubin (1977); Little and Rubin (2002), Statistical Analysis with
//! Missing Data, section 11.2; Lauritzen (1996), Graphical Models, section 5.1, for conditional
//! distributions by the inverse; Anderson (1965); Henderson and Varadhan (2019) for EM.

use std::sync::Arc;

use serde_json::json;

use super::algebra::cholesky::{independent, inverse_factor, solve};
use super::algebra::dense::dot;
use super::algebra::panels::{subtract_products, subtract_shares};
use super::patterns::Aligned;
use crate::kernel::moments::{Mean, Moments};
use crate::kernel::rank_update::triangle;
use crate::kernel::threads::of_each;
use crate::record::gram::Record;
use crate::record::terms::Terms;
use crate::words::error::Error;

/// Steps, unless another limit is given.
pub const MAX_ITERATIONS: usize = 500;
/// How little a step may move a mean, in deviations, or a correlation, to be the last.
pub const TOLERANCE: f64 = 1e-8;
/// Share of a column's variance below which what others of its pattern leave of it is rounding.
const DEPENDENT: f64 = 1e-12;
/// Steps that are mixed.
const MIXED: usize = 40;
/// How little a step moves where whole ones are mixed: farther off they may lead elsewhere.
const NEAR: f64 = 1e-3;
/// By how much rounding may lower the likelihood, a row and column.
const ROUNDING: f64 = 1e-14;
/// Runs of patterns whose sums are added in order: the same on any number of cores.
const RUNS: usize = 16;
/// Columns of a block of a factor.
const BLOCK: usize = 32;
/// Pairs that were never seen together of which the terms have the names.
const NAMED: usize = 20;
/// Sweeps of a completion, and how little the last one may move a correlation.
const SWEEPS: usize = 200;
const SETTLED: f64 = 1e-12;

/// What a caller may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most steps.
    pub max_iterations: usize,
    /// How little the last step moves.
    pub tolerance: f64,
    /// Rows of which the columns of different patterns are uncorrelated, added to those read;
    /// none given: as many as columns and one where a pair has few rows, else 0.
    pub prior: Option<f64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { max_iterations: MAX_ITERATIONS, tolerance: TOLERANCE, prior: None }
    }
}

/// A record, and where its columns are among all.
type Located = (Record, Vec<usize>);

/// What the rows of a pattern say: of columns in units of their deviations.
struct Part {
    /// Places of the columns.
    at: Vec<usize>,
    /// Those that it lacks.
    lacking: Vec<usize>,
    weight: f64,
    mean: Vec<f64>,
    /// Both triangles.
    comoment: Vec<f64>,
}

/// Mean and covariance.
#[derive(Clone)]
struct Normal {
    mean: Vec<f64>,
    /// Both triangles.
    covariance: Vec<f64>,
}

/// What the patterns say at a mean and a covariance.
struct Said {
    /// The sums of the expected completed rows around the mean, and their expected products.
    sums: Vec<f64>,
    products: Vec<f64>,
    /// But for a constant.
    likelihood: f64,
    /// Terms of the likelihood that cancel.
    cancelled: f64,
}

/// `Said` of some patterns, and what others say by the columns that they have.
struct Sums {
    said: Said,
    /// The weight of the others, and the sums of `n K d` and of A.
    weight: f64,
    slope: Vec<f64>,
    curvature: Vec<f64>,
}

/// The record of each group of patterns, completed by the mean and the covariance of all together.
///
/// Where all groups have one pattern alone, its records are returned as they are; nothing where no
/// row has a value. Where columns of different patterns depend on each other, the prior is needed.
pub fn em(groups: &[Vec<Record>], options: Options) -> Result<Vec<Record>, String> {
    let all: Vec<Record> = groups.iter().flatten().cloned().collect();
    let every = Aligned::of(&all)?;
    let locate = |records: &[Record]| -> Vec<Located> {
        records.iter().map(|record| every.located(record)).collect()
    };
    let (width, located) = (every.columns.len(), locate(&all));
    if width == 0 || located.iter().all(|(record, _)| record.moments.rows == 0) {
        return Ok(Vec::new());
    }
    if located.iter().all(|(_, at)| at.len() == width) {
        let merged = |group: &Vec<Record>| {
            let mut records = locate(group).into_iter().map(|(record, _)| record);
            let mut first = records.next().ok_or("a group has no patterns")?;
            records.try_for_each(|more| first.merge(&more))?;
            Ok(first)
        };
        return groups.iter().map(merged).collect();
    }
    let scale = Scale::of(width, &located);
    let parts = scale.parts(&located);
    let size = scale.kept.len();
    let seen = seen_together(&parts, size);
    let is_few = seen.iter().any(|&rows| rows > 0.0 && rows <= size as f64);
    let mut prior = options.prior.unwrap_or(if is_few { size as f64 + 1.0 } else { 0.0 });
    let start = scale.start(&parts);
    let mut found = Fixed::find(&parts, start.clone(), prior, &options);
    if found.is_err() && options.prior.is_none() && prior == 0.0 {
        prior = size as f64 + 1.0;
        found = Fixed::find(&parts, start, prior, &options);
    }
    let found = found?;
    let mut normal = found.normal.clone();
    let unseen: Vec<(usize, usize)> = (0..size)
        .flat_map(|i| (0..i).map(move |j| (j, i)))
        .filter(|&(j, i)| seen[i * size + j] == 0.0)
        .collect();
    if !unseen.is_empty() {
        complete(&mut normal.covariance, size, &seen);
    }
    let said = |(j, i): &(usize, usize)| {
        json!([every.columns[scale.kept[*j]], every.columns[scale.kept[*i]]])
    };
    let mut terms = (*every.terms).clone();
    terms.em = Some(json!({
        "iterations": found.iterations,
        "converged": found.converged,
        "likelihood": found.likelihood,
        "prior": prior,
        "unseen": unseen.len(),
        "pairs": unseen.iter().take(NAMED).map(said).collect::<Vec<_>>(),
    }));
    let terms = Arc::new(terms);
    let record = |group: &Vec<Record>| {
        let (mut rows, mut skipped) = (0, 0);
        let located = locate(group);
        for (record, at) in &located {
            // A row without a value says nothing.
            *(if at.is_empty() { &mut skipped } else { &mut rows }) += record.moments.rows;
            skipped += record.moments.skipped;
        }
        let mut missing = vec![rows + skipped; width];
        for (record, at) in &located {
            for (&j, absent) in at.iter().zip(&record.missing) {
                missing[j] -=
                    (record.moments.rows + record.moments.skipped).saturating_sub(*absent);
            }
        }
        let moments = scale.moments(&scale.parts(&located), &normal, rows, skipped)?;
        Ok(Record { columns: every.columns.clone(), moments, missing, terms: terms.clone() })
    };
    groups.iter().map(record).collect()
}

/// Columns in units of their deviations, of those that are always seen together only such as do
/// not depend on each other.
struct Scale {
    /// One a column.
    center: Vec<(f64, f64)>,
    deviation: Vec<f64>,
    /// The columns that are kept.
    kept: Vec<usize>,
    /// Each column as a combination of kept ones, by their numbers among these.
    made: Vec<Vec<(usize, f64)>>,
    /// Which of the kept are always seen together: a number.
    block: Vec<usize>,
}

impl Scale {
    fn of(width: usize, located: &[Located]) -> Scale {
        let mut holders: Vec<Vec<usize>> = vec![Vec::new(); width];
        for (p, (record, at)) in located.iter().enumerate() {
            if record.moments.rows > 0 {
                at.iter().for_each(|&j| holders[j].push(p));
            }
        }
        let mut blocks: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for (j, own) in holders.into_iter().enumerate() {
            match blocks.iter_mut().find(|(holders, _)| *holders == own) {
                Some((_, columns)) => columns.push(j),
                None => blocks.push((own, vec![j])),
            }
        }
        let mut scale = Scale {
            center: vec![(0.0, 0.0); width],
            deviation: vec![0.0; width],
            kept: Vec::new(),
            made: vec![Vec::new(); width],
            block: Vec::new(),
        };
        for (number, (holders, columns)) in blocks.iter().enumerate() {
            let mut pooled = Moments::new(columns.len());
            for &p in holders {
                let (record, at) = &located[p];
                let place = |j: &usize| at.binary_search(j).ok();
                let order: Vec<Option<usize>> = columns.iter().map(place).collect();
                pooled.merge(&record.moments.arranged(&order));
            }
            let size = columns.len();
            for ((&j, mean), k) in columns.iter().zip(pooled.exact_means()).zip(0..) {
                let variance = match pooled.weight > 0.0 {
                    true => pooled.comoment_of(k, k) / pooled.weight,
                    false => 0.0,
                };
                (scale.center[j], scale.deviation[j]) = (mean, variance.sqrt());
            }
            let unit = |k: usize| scale.deviation[columns[k]] * pooled.weight.sqrt();
            let mut correlation = vec![0.0; size * size];
            for (i, j) in (0..size).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                let both = unit(i) * unit(j);
                let entry = if both > 0.0 { pooled.comoment_of(i, j) / both } else { 0.0 };
                correlation[i * size + j] = entry;
                correlation[j * size + i] = entry;
            }
            let (mut own, _) = independent(&correlation, size, DEPENDENT);
            own.sort_unstable();
            let rank = own.len();
            let first = scale.kept.len();
            scale.kept.extend(own.iter().map(|&k| columns[k]));
            scale.block.resize(first + rank, number);
            let mut inner = vec![0.0; rank * rank];
            for (a, &i) in own.iter().enumerate() {
                for (b, &j) in own.iter().enumerate() {
                    inner[a * rank + b] = correlation[i * size + j];
                }
            }
            let factor = factored(&inner, rank);
            for k in 0..size {
                scale.made[columns[k]] = match own.binary_search(&k) {
                    Ok(at) => vec![(first + at, 1.0)],
                    Err(_) if scale.deviation[columns[k]] == 0.0 => Vec::new(),
                    Err(_) => {
                        let mut share: Vec<f64> =
                            own.iter().map(|&j| correlation[k * size + j]).collect();
                        if let Some(factor) = &factor {
                            solve(factor, &mut share);
                        }
                        share.into_iter().enumerate().map(|(at, x)| (first + at, x)).collect()
                    }
                };
            }
        }
        scale
    }

    /// What each pattern says of the kept columns.
    fn parts(&self, located: &[Located]) -> Vec<Part> {
        let part = |(record, at): &Located| {
            let (places, order): (Vec<usize>, Vec<usize>) = self
                .kept
                .iter()
                .enumerate()
                .filter_map(|(place, j)| Some((place, at.binary_search(j).ok()?)))
                .unzip();
            let means: Vec<(f64, f64)> = record.moments.exact_means().collect();
            let distance = |(&place, &k): (&usize, &usize)| {
                let j = self.kept[place];
                let (high, low) = self.center[j];
                ((means[k].0 - high) + (means[k].1 - low)) / self.deviation[j]
            };
            let size = order.len();
            let mut comoment = vec![0.0; size * size];
            for (a, &i) in order.iter().enumerate() {
                for (b, &j) in order.iter().enumerate() {
                    let unit = self.deviation[at[i]] * self.deviation[at[j]];
                    comoment[a * size + b] = record.moments.comoment_of(i, j) / unit;
                }
            }
            let mean = places.iter().zip(&order).map(distance).collect();
            let lacking = (0..self.kept.len()).filter(|j| places.binary_search(j).is_err());
            let (lacking, weight) = (lacking.collect(), record.moments.weight);
            Part { at: places, lacking, weight, mean, comoment }
        };
        located.iter().filter(|(record, _)| record.moments.rows > 0).map(part).collect()
    }

    /// The covariance of columns that are always seen together, and no other.
    fn start(&self, parts: &[Part]) -> Normal {
        let size = self.kept.len();
        let mut covariance = vec![0.0; size * size];
        let mut weight = vec![0.0; size];
        for part in parts {
            let own = part.at.len();
            for (a, &i) in part.at.iter().enumerate() {
                weight[i] += part.weight;
                for (b, &j) in part.at.iter().enumerate() {
                    if self.block[i] == self.block[j] {
                        covariance[i * size + j] +=
                            part.comoment[a * own + b] + part.weight * part.mean[a] * part.mean[b];
                    }
                }
            }
        }
        for (at, entry) in covariance.iter_mut().enumerate() {
            *entry /= weight[at / size];
        }
        Normal { mean: vec![0.0; size], covariance }
    }

    /// The moments of completed rows, in the units of the table.
    fn moments(
        &self,
        parts: &[Part],
        normal: &Normal,
        rows: u64,
        skipped: u64,
    ) -> Result<Moments, String> {
        let size = self.kept.len();
        let weight: f64 = parts.iter().map(|part| part.weight).sum();
        let said = normal.said(parts).ok_or_else(singular)?;
        let mean: Vec<f64> =
            normal.mean.iter().zip(&said.sums).map(|(mean, sum)| mean + sum / weight).collect();
        let Said { sums, products, .. } = said;
        let around = |i: usize, j: usize| products[i * size + j] - sums[i] * sums[j] / weight;
        let width = self.made.len();
        let (mut high, mut low) = (vec![0.0; width], vec![0.0; width]);
        let mut comoment = vec![0.0; triangle(width)];
        // Columns as combinations of the kept ones: first of rows, then of columns.
        let mut half = vec![0.0; width * size];
        for (i, own) in self.made.iter().enumerate() {
            let unit = self.deviation[i];
            let distance: f64 = own.iter().map(|&(k, share)| share * mean[k]).sum::<f64>() * unit;
            let (center, rest) = self.center[i];
            high[i] = center + (rest + distance);
            low[i] = (center - high[i]) + (rest + distance);
            for &(k, share) in own {
                for j in 0..size {
                    half[i * size + j] += unit * share * around(k, j);
                }
            }
        }
        for i in 0..width {
            for j in 0..=i {
                let entry: f64 =
                    self.made[j].iter().map(|&(k, share)| share * half[i * size + k]).sum();
                comoment[triangle(i) + j] = entry * self.deviation[j];
            }
        }
        Ok(Moments::from_parts(rows, skipped, weight, Mean { high, low }, comoment))
    }
}

/// Refuse the terms of a record that EM completed; `what` needs the rows as they were read.
pub fn check_rows(terms: &Terms, what: &str) -> Result<(), Error> {
    match terms.em {
        None => Ok(()),
        Some(_) => Err(Error::argument(format!(
            "the record is completed by EM: {what} would count what is filled in as read; take the \
             record of the rows that have all columns of the model"
        ))),
    }
}

fn singular() -> String {
    "the columns of some patterns depend on each other across patterns, so that EM has no inverse; \
     give prior, a number of rows of which they are uncorrelated, or leave a column out"
        .to_string()
}

/// Rows that have both columns of a pair, by weight.
fn seen_together(parts: &[Part], size: usize) -> Vec<f64> {
    let mut seen = vec![0.0; size * size];
    for part in parts {
        for &i in &part.at {
            part.at.iter().for_each(|&j| seen[i * size + j] += part.weight);
        }
    }
    seen
}

/// How far a step moved, and where it led.
type Step = [Vec<f64>; 2];

/// Where the steps end.
struct Fixed {
    normal: Normal,
    iterations: usize,
    converged: bool,
    likelihood: f64,
}

impl Fixed {
    fn find(parts: &[Part], start: Normal, prior: f64, options: &Options) -> Result<Fixed, String> {
        let size = start.mean.len();
        let weight: f64 = parts.iter().map(|part| part.weight).sum();
        let target = start.covariance.clone();
        // EM moves a product by some share of the rows that have it: mixed are whole steps.
        let seen = seen_together(parts, size);
        let whole = |rows: f64| if rows > 0.0 { (weight + prior) / (rows + prior) } else { 1.0 };
        let mean = (0..size).map(|i| whole(seen[i * size + i]));
        let pairs = (0..size).flat_map(|i| (0..=i).map(move |j| i * size + j));
        let length: Vec<f64> = mean.chain(pairs.map(|at| whole(seen[at]))).collect();
        let mut normal = start;
        let mut is_near = false;
        let mut known: Option<f64> = None;
        // The plain step from the point before, in case the mixture is worse.
        let mut plain: Option<Normal> = None;
        let (mut last, mut moves) = (None::<Step>, Vec::<Step>::new());
        for iterations in 1..=options.max_iterations.max(1) {
            let said = normal.said(parts).and_then(|said| {
                let less = if prior > 0.0 { penalty(&normal, &target, prior)? } else { 0.0 };
                Some(Said { likelihood: said.likelihood - less, ..said })
            });
            // A plain step never lowers it, but by rounding.
            let least = known.filter(|_| plain.is_some()).unwrap_or(f64::NEG_INFINITY);
            let slack = |said: &Said| ROUNDING * (weight * size as f64 + said.cancelled);
            let is_more = |said: &Said| said.likelihood >= least - slack(said);
            let said = match (said.filter(is_more), plain.take()) {
                (Some(said), _) => said,
                (None, Some(better)) => {
                    (normal, last) = (better, None);
                    moves.clear();
                    continue;
                }
                (None, None) => return Err(singular()),
            };
            known = Some(said.likelihood);
            let (step, mut products) = (said.sums, said.products);
            for (at, entry) in products.iter_mut().enumerate() {
                let (i, j) = (at / size, at % size);
                *entry -= step[i] * step[j] / weight;
                *entry = (*entry + prior * target[at]) / (weight + prior);
            }
            let mean: Vec<f64> =
                normal.mean.iter().zip(&step).map(|(mean, step)| mean + step / weight).collect();
            let next = Normal { mean, covariance: products };
            let (before, after) = (normal.packed(), next.packed());
            let mut moved: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
            let far = moved.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            if far < options.tolerance {
                let likelihood = said.likelihood;
                return Ok(Fixed { normal: next, iterations, converged: true, likelihood });
            }
            if !is_near && far < NEAR {
                is_near = true;
                last = None;
                moves.clear();
            }
            if is_near {
                moved.iter_mut().zip(&length).for_each(|(x, length)| *x *= length);
            }
            let after: Vec<f64> = before.iter().zip(&moved).map(|(x, step)| x + step).collect();
            if let Some([moved_before, after_before]) = &last {
                let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect();
                moves.push([apart(&moved, moved_before), apart(&after, after_before)]);
                if moves.len() > MIXED {
                    moves.remove(0);
                }
            }
            let mixed = mixture(&moved, &after, &moves).map(|packed| Normal::of(&packed, size));
            last = Some([moved, after]);
            normal = match mixed.filter(|mixed| factored(&mixed.covariance, size).is_some()) {
                Some(mixed) => {
                    plain = Some(next);
                    mixed
                }
                None => next,
            };
        }
        let likelihood = known.unwrap_or_default();
        let iterations = options.max_iterations;
        Ok(Fixed { normal: plain.unwrap_or(normal), iterations, converged: false, likelihood })
    }
}

/// What a prior takes from the likelihood.
fn penalty(normal: &Normal, target: &[f64], prior: f64) -> Option<f64> {
    let size = normal.mean.len();
    let factor = factored(&normal.covariance, size)?;
    let inverse = inverse_of(&factor, size);
    Some(0.5 * prior * (log_determinant(&factor, size) + dot(&inverse, target)))
}

/// The point that the last steps lead to, by least squares; nothing without any.
fn mixture(moved: &[f64], after: &[f64], moves: &[Step]) -> Option<Vec<f64>> {
    let count = moves.len();
    if count == 0 {
        return None;
    }
    let mut products = vec![0.0; count * count];
    for i in 0..count {
        for j in 0..=i {
            let product = dot(&moves[i][0], &moves[j][0]);
            products[i * count + j] = product;
            products[j * count + i] = product;
        }
    }
    // Of steps that are nearly combinations of others, those with the most left are kept.
    let units: Vec<f64> = (0..count).map(|k| products[k * count + k].sqrt()).collect();
    for (at, entry) in products.iter_mut().enumerate() {
        let unit = units[at / count] * units[at % count];
        *entry = if unit > 0.0 { *entry / unit } else { 0.0 };
    }
    let (kept, factor) = independent(&products, count, 1e-12);
    let mut shares: Vec<f64> = kept.iter().map(|&k| dot(&moves[k][0], moved) / units[k]).collect();
    solve(&factor, &mut shares);
    let mut found = after.to_vec();
    for (&k, share) in kept.iter().zip(&shares) {
        let share = share / units[k];
        found.iter_mut().zip(&moves[k][1]).for_each(|(x, step)| *x -= share * step);
    }
    Some(found)
}

impl Normal {
    fn packed(&self) -> Vec<f64> {
        let size = self.mean.len();
        let mut packed = self.mean.clone();
        for i in 0..size {
            packed.extend_from_slice(&self.covariance[i * size..][..=i]);
        }
        packed
    }

    fn of(packed: &[f64], size: usize) -> Normal {
        let (mean, lower) = packed.split_at(size);
        let mut covariance = vec![0.0; size * size];
        for i in 0..size {
            for j in 0..=i {
                let entry = lower[triangle(i) + j];
                covariance[i * size + j] = entry;
                covariance[j * size + i] = entry;
            }
        }
        Normal { mean: mean.to_vec(), covariance }
    }

    /// What all patterns say; nothing where the covariance of some has no inverse.
    fn said(&self, parts: &[Part]) -> Option<Said> {
        let size = self.mean.len();
        let factor = factored(&self.covariance, size);
        let whole = factor.map(|factor| Whole {
            precision: inverse_of(&factor, size),
            log_determinant: log_determinant(&factor, size),
        });
        let say = |some: &[Part]| {
            let mut sums = Sums::new(size);
            for part in some {
                let whole = whole.as_ref().filter(|_| part.lacking.len() < part.at.len());
                match whole.and_then(|whole| whole.factor_of(part).zip(Some(whole))) {
                    Some((factor, whole)) => {
                        self.add_by_lacking(part, whole, &factor, &mut sums.said);
                    }
                    None => self.add_by_present(part, &mut sums)?,
                }
            }
            Some(sums)
        };
        let runs = parts.chunks(parts.len().div_ceil(RUNS).max(1)).collect();
        let mut all = Sums::new(size);
        of_each(runs, say).into_iter().try_for_each(|sums| sums.map(|sums| all.add(&sums)))?;
        let Sums { mut said, weight, slope, curvature } = all;
        if weight > 0.0 {
            add(&mut said.sums, &times_vector(&self.covariance, &slope));
            let mut half = vec![0.0; size * size];
            subtract_shares(&mut half, &curvature, size, &self.covariance);
            said.products.iter_mut().zip(&self.covariance).for_each(|(x, s)| *x += weight * s);
            subtract_shares(&mut said.products, &self.covariance, size, &half);
        }
        for i in 0..size {
            for j in 0..i {
                let entry = 0.5 * (said.products[i * size + j] + said.products[j * size + i]);
                said.products[i * size + j] = entry;
                said.products[j * size + i] = entry;
            }
        }
        said.likelihood.is_finite().then_some(said)
    }

    /// Products of a pattern around the mean, of which its own mean has a distance.
    fn around(&self, part: &Part) -> (Vec<f64>, Vec<f64>) {
        let distance: Vec<f64> =
            part.at.iter().zip(&part.mean).map(|(&j, mean)| mean - self.mean[j]).collect();
        let mut products = part.comoment.clone();
        for (row, x) in products.chunks_exact_mut(distance.len().max(1)).zip(&distance) {
            row.iter_mut().zip(&distance).for_each(|(entry, y)| *entry += part.weight * x * y);
        }
        (distance, products)
    }

    /// Add what a pattern says by the inverse of the covariance of the columns that it has.
    fn add_by_present(&self, part: &Part, sums: &mut Sums) -> Option<()> {
        let (size, own) = (self.mean.len(), part.at.len());
        let factor = factored(&block(&self.covariance, size, &part.at, &part.at), own)?;
        let inverse = inverse_of(&factor, own);
        let (distance, products) = self.around(part);
        let fit = dot(&inverse, &products);
        sums.said.likelihood -= 0.5 * (part.weight * log_determinant(&factor, own) + fit);
        // K C K - n K, of -K C.
        let mut half = vec![0.0; own * own];
        subtract_shares(&mut half, &products, own.max(1), &inverse);
        let mut curvature: Vec<f64> = inverse.iter().map(|x| -part.weight * x).collect();
        subtract_shares(&mut curvature, &inverse, own.max(1), &half);
        sums.weight += part.weight;
        for (&i, slope) in part.at.iter().zip(times_vector(&inverse, &distance)) {
            sums.slope[i] += part.weight * slope;
        }
        add_block(&mut sums.curvature, size, [&part.at, &part.at], &curvature);
        Some(())
    }

    /// Add what a pattern says by the conditional distribution of the columns that it lacks.
    fn add_by_lacking(&self, part: &Part, whole: &Whole, factor: &[f64], said: &mut Said) {
        let Part { at, lacking, weight, .. } = part;
        let (size, own, gone) = (self.mean.len(), at.len(), lacking.len());
        let (distance, products) = self.around(part);
        let left = inverse_of(factor, gone);
        let across = block(&whole.precision, size, lacking, at);
        let mut share = vec![0.0; gone * own];
        subtract_shares(&mut share, &across, own, &left);
        // -B C.
        let mut half = vec![0.0; gone * own];
        subtract_shares(&mut half, &products, own, &share);
        let mut rest: Vec<f64> = left.iter().map(|x| weight * x).collect();
        subtract_shares(&mut rest, &turned(&share, own), gone.max(1), &half);
        let (fit, less) =
            (dot(&block(&whole.precision, size, at, at), &products), dot(&across, &half));
        let log_determinant = whole.log_determinant + log_determinant(factor, gone);
        said.likelihood -= 0.5 * (weight * log_determinant + fit - less);
        said.cancelled += less.abs();
        half.iter_mut().for_each(|x| *x = -*x);
        add_block(&mut said.products, size, [at, at], &products);
        add_block(&mut said.products, size, [lacking, at], &half);
        add_block(&mut said.products, size, [at, lacking], &turned(&half, own));
        add_block(&mut said.products, size, [lacking, lacking], &rest);
        at.iter().zip(&distance).for_each(|(&i, x)| said.sums[i] += weight * x);
        let filled = times_vector(&share, &distance);
        lacking.iter().zip(filled).for_each(|(&i, x)| said.sums[i] += weight * x);
    }
}

/// The inverse of the covariance of all columns.
struct Whole {
    precision: Vec<f64>,
    log_determinant: f64,
}

impl Whole {
    /// The factor of the columns that a pattern lacks.
    fn factor_of(&self, part: &Part) -> Option<Vec<f64>> {
        let Part { at, lacking, .. } = part;
        let inner = block(&self.precision, at.len() + lacking.len(), lacking, lacking);
        factored(&inner, lacking.len())
    }
}

impl Sums {
    fn new(size: usize) -> Sums {
        let [sums, slope] = [(); 2].map(|()| vec![0.0; size]);
        let [products, curvature] = [(); 2].map(|()| vec![0.0; size * size]);
        let said = Said { sums, products, likelihood: 0.0, cancelled: 0.0 };
        Sums { said, weight: 0.0, slope, curvature }
    }

    fn add(&mut self, more: &Sums) {
        self.weight += more.weight;
        self.said.likelihood += more.said.likelihood;
        self.said.cancelled += more.said.cancelled;
        add(&mut self.said.sums, &more.said.sums);
        add(&mut self.said.products, &more.said.products);
        add(&mut self.slope, &more.slope);
        add(&mut self.curvature, &more.curvature);
    }
}

fn add(x: &mut [f64], more: &[f64]) {
    x.iter_mut().zip(more).for_each(|(x, more)| *x += more);
}

/// Some rows and columns of a square matrix.
fn block(matrix: &[f64], size: usize, rows: &[usize], columns: &[usize]) -> Vec<f64> {
    rows.iter().flat_map(|&i| columns.iter().map(move |&j| matrix[i * size + j])).collect()
}

/// Add to some rows and columns of a square matrix.
fn add_block(matrix: &mut [f64], size: usize, [rows, columns]: [&[usize]; 2], more: &[f64]) {
    for (&i, more) in rows.iter().zip(more.chunks_exact(columns.len().max(1))) {
        let row = &mut matrix[i * size..][..size];
        columns.iter().zip(more).for_each(|(&j, more)| row[j] += more);
    }
}

/// Rows of some width as columns.
fn turned(rows: &[f64], width: usize) -> Vec<f64> {
    (0..width).flat_map(|j| rows.iter().skip(j).step_by(width)).copied().collect()
}

/// Let pairs that were never seen together be independent given the others, and keep the rest.
///
/// Column by column: its covariances with what it was not seen with follow from the regression on
/// what it was seen with (Hastie, Tibshirani and Friedman 2009, algorithm 17.1).
fn complete(covariance: &mut [f64], size: usize, seen: &[f64]) {
    for _ in 0..SWEEPS {
        let mut far: f64 = 0.0;
        for j in 0..size {
            let (with, without): (Vec<usize>, Vec<usize>) =
                (0..size).filter(|&i| i != j).partition(|&i| seen[i * size + j] > 0.0);
            if without.is_empty() {
                continue;
            }
            let own = with.len();
            let mut inner = vec![0.0; own * own];
            for (a, &i) in with.iter().enumerate() {
                for (b, &k) in with.iter().enumerate() {
                    inner[a * own + b] = covariance[i * size + k];
                }
            }
            let Some(factor) = factored(&inner, own) else { continue };
            let mut share: Vec<f64> = with.iter().map(|&i| covariance[i * size + j]).collect();
            solve(&factor, &mut share);
            for &i in &without {
                let entry: f64 =
                    with.iter().zip(&share).map(|(&k, x)| covariance[i * size + k] * x).sum();
                far = far.max((entry - covariance[i * size + j]).abs());
                covariance[i * size + j] = entry;
                covariance[j * size + i] = entry;
            }
        }
        if far < SETTLED {
            return;
        }
    }
}

fn times_vector(matrix: &[f64], x: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(x.len().max(1)).map(|row| dot(row, x)).collect()
}

fn log_determinant(factor: &[f64], size: usize) -> f64 {
    2.0 * (0..size).map(|i| factor[i * size + i].ln()).sum::<f64>()
}

/// The inverse of `L L'`, both triangles.
fn inverse_of(factor: &[f64], size: usize) -> Vec<f64> {
    let lower = inverse_factor(factor, size);
    let mut found = vec![0.0; size * size];
    subtract_products(&mut found, &lower, size.max(1), 0);
    found.iter_mut().for_each(|x| *x = -*x);
    found
}

/// The factor of a matrix, block by block; nothing where that is not positive definite.
fn factored(matrix: &[f64], size: usize) -> Option<Vec<f64>> {
    let mut left = matrix.to_vec();
    for from in (0..size).step_by(BLOCK) {
        let to = (from + BLOCK).min(size);
        for i in from..size {
            let (above, row) = left.split_at_mut(i * size);
            for j in from..to.min(i + 1) {
                if j == i {
                    let pivot = row[i] - dot(&row[from..i], &row[from..i]);
                    let is_definite = pivot > DEPENDENT * matrix[i * size + i];
                    if !is_definite {
                        return None;
                    }
                    row[i] = pivot.sqrt();
                } else {
                    let other = &above[j * size..][..=j];
                    row[j] = (row[j] - dot(&row[from..j], &other[from..j])) / other[j];
                }
            }
            let end = if i < to { i + 1 } else { to };
            row[end.min(size)..if i < to { size } else { end }].fill(0.0);
        }
        if to < size {
            // The rows of the block's columns, from below it.
            let mut across = vec![0.0; (to - from) * size];
            for i in to..size {
                for k in from..to {
                    across[(k - from) * size + i] = left[i * size + k];
                }
            }
            let shares: Vec<f64> =
                (to..size).flat_map(|i| left[i * size + from..i * size + to].to_vec()).collect();
            subtract_shares(&mut left[to * size..], &across, size, &shares);
        }
    }
    for i in 0..size {
        left[i * size + i + 1..(i + 1) * size].fill(0.0);
    }
    Some(left)
}
