//! The problem of a record, with the patterns that its rows have had so far.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::stake::{Offer, Stake};
use crate::glm::family::Family;
use crate::linear::fields::Fields;
use crate::linear::groups::Groups;
use crate::linear::problem::{Gram, Linear, Raw};
use crate::methods::PREDICT_AVAILABLE;
use crate::methods::given::{Given, read_choice};
use crate::methods::options::refused;
use crate::methods::pattern::Pattern;
use crate::methods::question::Setting;
use crate::methods::setup::Plan;
use crate::record::gram::Record;
use crate::record::terms::{self, Terms};
use crate::words::error::Error;
use crate::words::value::Value;

/// Patterns that are kept of a predictor; of more, all are solved anew.
pub const MOST_PATTERNS: usize = 4096;
/// Predictors that are kept, those used last.
const MOST_PREDICTORS: usize = 64;

/// Which groups are there, a bit each.
pub type Bits = Box<[u64]>;

/// What predicts the target of a record from any of its groups.
pub struct Predictor {
    record: Record,
    target: String,
    given: Vec<(String, Value)>,
    fields: Fields,
    plan: Plan,
    at: usize,
    mean: Vec<f64>,
    mean_low: Vec<f64>,
    comoment: Vec<f64>,
    problem: Linear,
    /// How the columns of the table became those of the groups.
    pub terms: Arc<Terms>,
    /// The probability of intervals, if they are asked for.
    pub level: Option<f64>,
    /// What it is worth to accept a row, if that is asked for.
    pub stake: Option<Stake>,
    family: Option<Family>,
    patterns: Mutex<HashMap<Bits, Arc<Known>>>,
}

/// A pattern, and what its rows may be given, if a row is at stake.
pub struct Known {
    /// The pattern.
    pub pattern: Pattern,
    /// By their cost.
    pub offers: Vec<Offer>,
}

/// By how much rounding may move the mean square of values between 0 and 1.
const BETWEEN: f64 = 1e-9;
/// Those that are kept; the last was used last.
static KEPT: Mutex<Vec<Arc<Predictor>>> = Mutex::new(Vec::new());

impl Predictor {
    /// The predictor of a record, with options by name, and the family whose linear predictors its
    /// predictions are; the inner error is the reason why the
    /// record has none.
    pub fn of(
        record: Record,
        target: &str,
        given: Vec<(String, Value)>,
        family: Option<Family>,
    ) -> Result<Result<Arc<Predictor>, String>, Error> {
        let mut kept = locked(&KEPT);
        if let Some(at) = kept.iter().rposition(|one| one.is_of(&record, target, &given, family)) {
            let found = kept.remove(at);
            kept.push(found.clone());
            return Ok(Ok(found));
        }
        drop(kept);
        let made = Predictor::new(record, target, given, family)?.map(Arc::new);
        if let Ok(made) = &made {
            let mut kept = locked(&KEPT);
            if kept.len() == MOST_PREDICTORS {
                kept.remove(0);
            }
            kept.push(made.clone());
        }
        Ok(made)
    }

    fn new(
        record: Record,
        target: &str,
        given: Vec<(String, Value)>,
        family: Option<Family>,
    ) -> Result<Result<Predictor, String>, Error> {
        let request = read_choice(&PREDICT_AVAILABLE, target, &given)?;
        request.check()?;
        let options = Given { method: &PREDICT_AVAILABLE, values: &given };
        let (level, stake) = (options.number("level")?, Stake::read(&options, family)?);
        if let Some(level) = level.filter(|level| !(*level > 0.0 && *level < 1.0)) {
            return Err(refused("level", &Value::Number(level)));
        }
        if !record.terms.entries.is_empty() {
            return Err(Error::argument(
                "predict_available reads no fields of entries; leave them out of the record"
                    .to_string(),
            ));
        }
        let (moments, means) = (&record.moments, record.moments.exact_mean());
        let missing: Vec<i64> = record.missing.iter().map(|&rows| rows as i64).collect();
        let whole = Gram {
            rows: moments.rows as i64,
            skipped: moments.skipped as i64,
            weight: moments.weight,
            mean: &means.high,
            mean_low: &means.low,
            comoment: &moments.comoment,
            missing: &missing,
        };
        let fit = request.fit(&record.columns, &record.terms)?;
        let fields = request.fields.clone();
        let plan = match fit.plan(&whole)? {
            Ok(plan) => plan.clone(),
            Err(reason) => return Ok(Err(reason)),
        };
        let mut raw = Raw::default();
        let usable = plan.target.usable(&whole, fields.intercept);
        let usable =
            usable.and_then(|at| Ok((at, if fields.intercept { whole } else { raw.of(&whole)? })));
        let (at, gram) = match usable {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        if let (Some(payoff), None) = (options.get("payoff"), family) {
            let (mean, square) = (whole.mean[at], whole.comoment(at, at) / whole.weight);
            // No value between 0 and 1 is below its square.
            if mean * mean + square > mean + BETWEEN {
                return Err(Error::argument(format!(
                    "payoff is {payoff}, and target '{target}' has other values than 0 and 1; \
                     give accept_above and worth"
                )));
            }
        }
        let mut problem = Linear::default();
        problem.set_up(&gram, at, &plan.at, fields.ridge, fields.scale);
        let (mean, mean_low) = (gram.mean.to_vec(), gram.mean_low.to_vec());
        let comoment = gram.comoment.to_vec();
        let json = record.terms.of_model(&record.columns, |at| whole.mean(at));
        let terms = terms::read(json.as_deref()).map_err(Error::argument)?;
        let (target, patterns) = (target.to_string(), Mutex::default());
        Ok(Ok(Predictor {
            record,
            target,
            given,
            fields,
            plan,
            at,
            mean,
            mean_low,
            comoment,
            problem,
            terms,
            level,
            stake,
            family,
            patterns,
        }))
    }

    fn is_of(
        &self,
        record: &Record,
        target: &str,
        given: &[(String, Value)],
        family: Option<Family>,
    ) -> bool {
        self.target == target
            && self.given == given
            && self.family == family
            && self.record.is(record)
    }

    /// Its groups and what they cost.
    pub fn groups(&self) -> &Groups {
        &self.plan.groups
    }

    /// The pattern of some groups, solved if it is not known.
    pub fn pattern(&self, bits: &[u64]) -> Result<Arc<Known>, String> {
        if let Some(known) = locked(&self.patterns).get(bits) {
            return Ok(known.clone());
        }
        let asked = Setting {
            fields: &self.fields,
            plan: &self.plan,
            gram: Gram {
                rows: self.record.moments.rows as i64,
                skipped: self.record.moments.skipped as i64,
                weight: self.record.moments.weight,
                mean: &self.mean,
                mean_low: &self.mean_low,
                comoment: &self.comoment,
                missing: &[],
            },
            target: self.at,
            problem: &self.problem,
        };
        let has = |group: &usize| bits[group / 64] >> (group % 64) & 1 == 1;
        let groups: Vec<usize> = (0..self.groups().names.len()).filter(has).collect();
        let pattern = Pattern::solve(&asked, &groups)?;
        let offers = self.stake.map_or_else(Vec::new, |stake| stake.offers(&asked, &pattern));
        let found = Arc::new(Known { pattern, offers });
        let mut patterns = locked(&self.patterns);
        if patterns.len() >= MOST_PATTERNS {
            patterns.clear();
        }
        patterns.insert(bits.into(), found.clone());
        Ok(found)
    }
}

/// What a panic leaves is whole: every change is one call.
fn locked<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
