//! The error of linear models on the record of other rows, which are not read again.
//!
//! With weights w in the table's units and residual mean m,
//!
//! ```text
//! MSE = (yy - 2 w'c + w'Cw) + m^2        r2 = 1 - MSE / var(y)
//! ```
//!
//! `dbselect/validation/scoring/evaluate.py` is the same rule.

use std::collections::{HashMap, HashSet};

use crate::kernel::gaps::SUFFIX;
use crate::linear::problem::{Gram, Target};
use crate::record::gram::Record;
use crate::record::inputs::curves;
use crate::record::prefix::Step;
use crate::record::terms::{Category, Terms, marked, sources};
use crate::words::nearest;

/// Share of the weight that counts as 0, for the rounding of a sum of shares.
const ROUNDING_SHARE: f64 = 1e-9;

/// How well a model predicts rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// 1 - MSE over the variance of the target.
    pub r2: f64,
    /// Mean squared error.
    pub mse: f64,
}

/// Judge the models of some steps, which have these terms; nothing where the record is unusable.
///
/// Without a name, the target is the one column of the record that no model reads.
pub fn judge(
    mut record: Record,
    target: Option<&str>,
    steps: &[Step],
    terms: &Terms,
) -> Result<Option<Vec<Judged>>, String> {
    let read = steps.iter().flat_map(|step| &step.coefficients).map(|(name, _)| &name[..]);
    let read: HashSet<&str> = read.collect();
    if steps.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let name = match target {
        Some(name) => name.to_string(),
        None => only_other(&record, &read, terms)?,
    };
    let target = Target::of(&name, &record.columns, &record.terms).map_err(|e| e.message)?;
    check_read_alike(&record.terms, terms, &read)?;
    let names = marked(&record.columns, &record.terms, terms);
    check_columns(&read, &names, &record.terms, terms)?;
    let places: HashMap<&str, usize> =
        (0..).zip(&names).map(|(at, name)| (&name[..], at)).collect();
    fill_as_fitted(&mut record, terms, &places);
    let (rows, skipped) = (record.moments.rows as i64, record.moments.skipped as i64);
    let (mean, missing) = (record.moments.mean(), record.missing.iter().map(|&n| n as i64));
    let missing: Vec<i64> = missing.collect();
    let (mean, missing) = (&mean[..], &missing[..]);
    let (weight, comoment) = (record.moments.weight, &record.moments.comoment[..]);
    let gram = Gram { rows, skipped, weight, mean, mean_low: &[], comoment, missing };
    let Ok(at) = target.usable(&gram, true) else { return Ok(None) };
    let unseen = unseen_in(&gram, &record.terms, terms, &read, &places)?;
    let variance = gram.comoment(at, at) / weight;
    let judged = |step: &Step| {
        let mut intercept = step.intercept;
        let mut weights: HashMap<&str, f64> =
            step.coefficients.iter().map(|(name, value)| (&name[..], *value)).collect();
        for (names, shares) in &unseen {
            let own = |name: &String| weights.get(&name[..]).copied().unwrap_or_default();
            let effect: f64 =
                names.iter().zip(*shares).map(|(name, share)| own(name) * share).sum();
            intercept += effect;
            names.iter().for_each(|name| *weights.entry(name).or_default() -= effect);
        }
        // The residual is a combination of columns.
        let others = weights.into_iter().filter_map(|(name, w)| Some((*places.get(name)?, -w)));
        let mut parts: Vec<(usize, f64)> = others.filter(|(_, w)| *w != 0.0).collect();
        parts.sort_by_key(|(at, _)| *at);
        parts.push((at, 1.0));
        let bias = parts.iter().map(|(j, w)| w * gram.mean(*j)).sum::<f64>() - intercept;
        let row = |(j, w): &(usize, f64)| {
            w * parts.iter().map(|(k, v)| v * gram.comoment(*j, *k)).sum::<f64>()
        };
        let mse = (parts.iter().map(row).sum::<f64>() / weight).max(0.0) + bias * bias;
        Judged { r2: 1.0 - mse / variance, mse }
    };
    Ok(Some(steps.iter().map(judged).collect()))
}

/// The column of a record that models do not read, if there is one.
fn only_other(record: &Record, read: &HashSet<&str>, terms: &Terms) -> Result<String, String> {
    let (own, fitted) = (sources(&record.terms), sources(terms));
    let known: HashSet<&str> = read
        .iter()
        .flat_map(|name| [Some(*name), fitted.get(*name).map(String::as_str)])
        .flatten()
        .collect();
    let is_read = |name: &&String| {
        known.contains(&name[..]) || own.get(*name).is_some_and(|head| known.contains(&head[..]))
    };
    let is_mark = |name: &&String| {
        let marked = name.strip_suffix(SUFFIX);
        marked.is_some_and(|of| record.terms.indicators.iter().any(|own| own == of))
    };
    let others = record.columns.iter().filter(|name| !is_read(name) && !is_mark(name));
    let others: Vec<&String> = others.collect();
    match &others[..] {
        [one] => Ok(one.to_string()),
        [] => Err("the model reads every column of the record, which lacks the target".to_string()),
        [one, two, ..] => Err(format!(
            "the model reads neither '{one}' nor '{two}' of the record; name the target, as in \
             evaluate(model, record, '{one}')"
        )),
    }
}

/// Refuse a record that was read in another way than that of the fit, for columns of both.
fn check_read_alike(own: &Terms, fitted: &Terms, read: &HashSet<&str>) -> Result<(), String> {
    let differ = |what: String| Err(format!("the record has another {what} than the fit"));
    let of_curves = |terms: &Terms| curves(terms).map(|(column, _)| column).collect::<Vec<_>>();
    let (own_curves, fitted_curves) = (of_curves(own), curves(fitted).collect::<Vec<_>>());
    for (at, (column, names)) in fitted_curves.iter().enumerate() {
        let other = own_curves.iter().position(|other| other == column);
        if names.iter().any(|name| read.contains(&name[..]))
            && other.is_some_and(|other| own.bases[other] != fitted.bases[at])
        {
            return differ(format!("basis of '{column}'"));
        }
    }
    for term in &fitted.computed {
        let other = own.computed.iter().find(|other| other.names == term.names);
        if other.is_some_and(|other| other != term) {
            return differ(format!("term '{}'", term.group));
        }
    }
    let is_read = |name: &&&String| read.contains(&name[..]);
    for name in
        own.dates.keys().chain(fitted.dates.keys()).collect::<Vec<_>>().iter().filter(is_read)
    {
        if own.dates.get(*name) != fitted.dates.get(*name) {
            return differ(format!("unit of '{name}'"));
        }
    }
    for name in own.means.keys().collect::<Vec<_>>().iter().filter(is_read) {
        let is_plain = |terms: &Terms| !terms.indicators.contains(name);
        let both = (own.means.get(*name), fitted.means.get(*name));
        if is_plain(own) && is_plain(fitted) && both.1.is_some() && both.0 != both.1 {
            return differ(format!("mean of '{name}' where it was missing"));
        }
    }
    for category in of_read(fitted, read) {
        let Some(other) = own.categories.iter().find(|one| one.column == category.column) else {
            continue;
        };
        if (category.rest || other.rest) && category.names() != other.names() {
            return differ(format!("set of levels of '{}'", category.column));
        }
    }
    Ok(())
}

/// The categories of which models read columns.
fn of_read<'t>(terms: &'t Terms, read: &HashSet<&str>) -> impl Iterator<Item = &'t Category> {
    let is_read = |one: &&Category| {
        one.names().iter().chain([&one.missing()]).any(|name| read.contains(&name[..]))
    };
    terms.categories.iter().filter(is_read).collect::<Vec<_>>().into_iter()
}

/// Let what stands in missing values be what stood there in the fit.
fn fill_as_fitted(record: &mut Record, terms: &Terms, places: &HashMap<&str, usize>) {
    for name in &terms.indicators {
        let mark = places.get(&format!("{name}{SUFFIX}")[..]);
        if let (Some(&column), Some(&mark)) = (places.get(&name[..]), mark) {
            record.moments.shift(column, mark, terms.fill(name) - record.terms.fill(name));
        }
    }
}

/// Refuse a record that lacks columns; a level that no row has is 0 in all of them.
fn check_columns(
    read: &HashSet<&str>,
    names: &[String],
    own: &Terms,
    fitted: &Terms,
) -> Result<(), String> {
    let zeros = own.zeros(fitted);
    let is_there = |name: &str| names.iter().any(|own| own == name) || zeros.contains(name);
    let mut lacking: Vec<&str> = read.iter().copied().filter(|name| !is_there(name)).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    lacking.sort_unstable();
    let others: Vec<String> =
        names.iter().filter(|name| !read.contains(&name[..])).cloned().collect();
    Err(nearest::lacking(&lacking, &others).replacen("the rows lack", "the record lacks", 1))
}

/// The columns of a category, and the shares of its levels.
type Unseen<'t> = (Vec<String>, &'t [f64]);

/// The columns and shares of the categories that have levels in the record which the fit has not.
fn unseen_in<'t>(
    gram: &Gram,
    own: &Terms,
    fitted: &'t Terms,
    read: &HashSet<&str>,
    places: &HashMap<&str, usize>,
) -> Result<Vec<Unseen<'t>>, String> {
    let mut found = Vec::new();
    for category in of_read(fitted, read).filter(|one| !one.rest) {
        let levels = own.categories.iter().find(|one| one.column == category.column);
        // A record with only some of the columns of levels says nothing about the other rows.
        let levels = levels.unwrap_or(category).names();
        let names = [category.names(), vec![category.missing()]].concat();
        let mean = |name: &String| places.get(&name[..]).map_or(0.0, |&at| gram.mean(at));
        let known: f64 = names.iter().map(mean).sum();
        let is_whole = levels.iter().all(|name| places.contains_key(&name[..]));
        if !is_whole || 1.0 - known <= ROUNDING_SHARE {
            continue;
        }
        let Some(shares) = &category.shares else {
            return Err(format!(
                "'{}' has a level that the fit has not seen, and the model was stored without \
                 the shares of levels, whose mean effect such a level counts as; fit again",
                category.column
            ));
        };
        found.push((names, &shares[..]));
    }
    Ok(found)
}
