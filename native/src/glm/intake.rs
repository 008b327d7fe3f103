//! Which columns of a row are kept and for what, and which values are refused on their way in.

use std::sync::Arc;

use super::link::LARGEST_LOG;
use super::request::Request;
use super::rows::Roles;
use crate::kernel::chunk::{Missing, mark_nan};
use crate::linear::columns::{is_meant, position};
use crate::record::kept::{Column as KeptColumn, Shape, Values};
use crate::record::rows::{Column, terms_of};
use crate::record::terms::Terms;
use crate::words::error::Error;
use crate::words::nearest::unknown;

/// What is kept of rows of some columns for a request.
#[derive(Debug)]
pub struct Intake {
    /// What is asked.
    pub request: Arc<Request>,
    /// What is kept.
    pub shape: Arc<Shape>,
    /// What each kept column is for.
    pub roles: Roles,
    /// The number of each kept column among those of the row.
    pub sources: Vec<usize>,
    /// The terms that follow from the columns alone.
    pub base: Terms,
}

impl Intake {
    /// Match a request to the columns of a row.
    pub fn new(request: Arc<Request>, columns: &[Column]) -> Result<Intake, Error> {
        let names: Vec<String> = columns.iter().map(|column| column.name.to_string()).collect();
        let find = |name: &String, what: &str| position(name, &names, what);
        let number = |name: &Option<String>, what: &str| {
            let found = name.as_ref().map(|name| find(name, what)).transpose()?;
            match found.filter(|&at| columns[at].is_text) {
                Some(at) => Err(Error::column(format!(
                    "{what} '{}' has type text; it must be numeric",
                    names[at]
                ))),
                None => Ok(found),
            }
        };
        let target = find(&request.target, "target")?;
        let kind = &columns[target];
        if (kind.is_text && !request.family.is_binomial()) || kind.unit.is_some() {
            let is = if kind.is_text { "text" } else { "a date" };
            return Err(Error::column(format!(
                "target '{}' has type {is}; of family '{}' it must be {}",
                request.target,
                request.family.text(),
                request.family.allowed()
            )));
        }
        let weight = number(&request.weight, "weight")?;
        let offset = number(&request.offset, "offset")?;
        let exposure = number(&request.exposure, "exposure")?;
        let apart: Vec<usize> =
            [Some(target), weight, offset, exposure].into_iter().flatten().collect();
        let takes_all = request.columns.is_none() && request.groups.is_none();
        let is_used = |&at: &usize| {
            let mut patterns = request.patterns_of();
            let is_of = |(pattern, _): (&String, String)| may_mean(pattern, &columns[at]);
            !apart.contains(&at) && (takes_all || patterns.any(is_of))
        };
        for (pattern, what) in request.patterns_of() {
            if !columns.iter().any(|column| may_mean(pattern, column)) {
                let unknown = unknown("column", pattern, &names);
                return Err(Error::column(format!("{what} names {unknown}")));
            }
        }
        let features: Vec<usize> = (0..columns.len()).filter(is_used).collect();
        if features.is_empty() {
            return Err(Error::column(
                "the row has no column besides the target that is asked for; at least one is \
                 needed"
                    .to_string(),
            ));
        }
        let sources = [&features[..], &apart].concat();
        let kept =
            |&at: &usize| KeptColumn { name: names[at].clone(), is_text: columns[at].is_text };
        let shape = Shape {
            columns: sources.iter().map(kept).collect(),
            max_bytes: request.max_bytes,
            instead: format!(
                "ask a sample (FROM t USING SAMPLE 10%), raise max_bytes, or read the table in \
                 passes, as Python's dbselect.{} with a family does",
                request.method.name.trim_end_matches("_glm").replace("summary", "fit")
            ),
        };
        let mut next = features.len()..;
        let mut place = |there: bool| if there { next.next() } else { None };
        let roles = Roles {
            features: (0..features.len()).collect(),
            target: place(true).unwrap_or_default(),
            weight: place(weight.is_some()),
            added: [place(offset.is_some()), place(exposure.is_some())]
                .into_iter()
                .flatten()
                .collect(),
        };
        let used: Vec<Column> = features
            .iter()
            .map(|&at| {
                let Column { name, is_field, is_text, unit } = columns[at];
                Column { name, is_field, is_text, unit }
            })
            .collect();
        let base = terms_of(&used);
        Ok(Intake { request, shape: Arc::new(shape), roles, sources, base })
    }

    /// The rows of a chunk of kept columns that are left out; refuse values that are none.
    ///
    /// `nulls` are the rows where a column is NULL. An exposure is replaced by its logarithm.
    pub fn screen(
        &self,
        rows: usize,
        chunk: &mut [Values],
        nulls: &[Missing],
    ) -> Result<Missing, String> {
        let mut missing = Missing::none();
        for (values, nulls) in chunk.iter().zip(nulls) {
            missing.set_those_of(nulls, rows);
            if let Values::Numbers(numbers) = values {
                mark_nan(numbers, &mut missing);
            }
        }
        if let Some(at) = self.roles.weight
            && let Values::Numbers(weights) = &chunk[at]
        {
            for (row, &weight) in weights.iter().enumerate() {
                if weight == 0.0 {
                    missing.set(row, rows);
                } else if weight < 0.0 && !missing.contains(row) {
                    let name = &self.shape.columns[at].name;
                    return Err(format!(
                        "weight '{name}' is negative ({weight}); weights must be >= 0"
                    ));
                }
            }
        }
        let Request { family, exposure, positive, target, .. } = &*self.request;
        for (at, values) in chunk.iter_mut().enumerate() {
            let Values::Numbers(numbers) = values else { continue };
            let name = &self.shape.columns[at].name;
            let used = || (0..rows).filter(|&row| !missing.contains(row));
            if let Some(row) = used().find(|&row| numbers[row].is_infinite()) {
                return Err(format!(
                    "column '{name}' has an infinite value ({}); values must be finite",
                    numbers[row]
                ));
            }
            if at == self.roles.target && positive.is_none() {
                if let Some(row) = used().find(|&row| !family.allows(numbers[row])) {
                    return Err(format!(
                        "target '{target}' has the value {}, and must be {} of family '{}'",
                        numbers[row],
                        family.allowed(),
                        family.text()
                    ));
                }
            } else if self.roles.added.contains(&at) {
                if exposure.as_ref() == Some(name) {
                    if let Some(row) = used().find(|&row| numbers[row] <= 0.0) {
                        return Err(format!(
                            "exposure '{name}' has the value {}, which is not above 0",
                            numbers[row]
                        ));
                    }
                    numbers.to_mut().iter_mut().for_each(|x| *x = x.ln());
                }
                let is_far = |row: &usize| numbers[*row].abs() > LARGEST_LOG;
                if family.is_log()
                    && let Some(row) = used().find(is_far)
                {
                    return Err(format!(
                        "offset '{name}' adds {} to the predictor, beyond {LARGEST_LOG}; an offset \
                         must be the logarithm of an exposure",
                        numbers[row]
                    ));
                }
            }
        }
        Ok(missing)
    }
}

/// Whether a pattern may mean a column, or a level of a column of text.
fn may_mean(pattern: &str, column: &Column) -> bool {
    let is_level = || {
        let level = pattern.strip_prefix(column.name);
        level.is_some_and(|level| level.starts_with('.')) || pattern.contains(['*', '?'])
    };
    is_meant(pattern, column.name) || (column.is_text && is_level())
}

impl Request {
    /// The patterns of the columns that are asked for, and where each comes from, for errors.
    fn patterns_of(&self) -> impl Iterator<Item = (&String, String)> {
        let columns = self.columns.iter().flatten();
        let groups = self.groups.iter().flatten();
        let of_groups = groups.flat_map(|(name, patterns)| {
            patterns.iter().map(move |pattern| (pattern, format!("group '{name}'")))
        });
        columns.map(|pattern| (pattern, "columns".to_string())).chain(of_groups)
    }
}
