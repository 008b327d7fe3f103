//! Plans that are kept from chunk to chunk, one a sequence.
//!
//! DuckDB copies one sequence to every chunk of a table, and a join the sequence of a
//! segment to each of its rows. They are identified by content, which costs far less than
//! planning. `crate::record::sequences` is the same for Polars.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::super::sequences::{Fields, Stored};
use super::super::vectors::ListEntry;
use crate::record::inputs::{Column, Kind, Unknown};
use crate::record::prefix::{Case, Plan, Step};
use crate::record::terms;

/// Bytes of the plans that a thread keeps of rows of one shape, about.
const MOST_BYTES: usize = 1 << 26;
/// Bytes that a coefficient and a step take in a plan and beside it, about.
const OF_COEFFICIENT: usize = 256;
const OF_STEP: usize = 512;
/// How many times as much may be planned without being kept before all is forgotten.
const MOST_MISSES: usize = 4;
/// Forms of models that are kept of rows of one shape.
const MOST_FORMS: usize = 16;
/// Shapes of rows of which plans are kept.
const MOST_SHAPES: usize = 4;

/// Names and kinds of columns.
type Shape = Vec<(String, Kind)>;

/// A plan, and what it was made of.
struct Known {
    sequence: Stored,
    plan: Rc<Plan>,
}

/// The plans of rows of one shape.
pub struct Plans {
    shape: Shape,
    /// By the hash of the sequence; unequal ones may share it.
    known: HashMap<(u64, Unknown), Vec<Known>>,
    /// What those that are kept take, and those that were not, as there was no room.
    kept: usize,
    missed: usize,
    /// The form that was asked for last stands first.
    forms: Vec<Form>,
}

/// What models have in common that differ by their numbers: the names of columns of numbers.
/// Their predictions need no plan, however many models there are.
pub struct Form {
    names: Vec<Box<[u8]>>,
    json: Option<String>,
    /// The column and the unit of each coefficient.
    factors: Vec<(usize, f64)>,
}

impl Form {
    /// How many coefficients its models have.
    pub fn width(&self) -> usize {
        self.factors.len()
    }

    /// What a model of this form predicts of a row; nothing if something is missing.
    pub fn value(
        &self,
        columns: &[Column],
        row: usize,
        intercept: f64,
        coefficients: &[f64],
    ) -> Option<f64> {
        let mut terms = self.factors.iter().zip(coefficients);
        terms.try_fold(intercept, |sum, (&(at, unit), coefficient)| {
            Some(sum + columns[at].number(row)? * (unit * coefficient))
        })
    }
}

thread_local! {
    /// Those used last stand at the end.
    static KEPT: RefCell<Vec<Plans>> = const { RefCell::new(Vec::new()) };
}

impl Plans {
    /// Take the plans of rows of some columns.
    pub fn take(columns: &[Column]) -> Plans {
        let shape: Shape = columns.iter().map(|one| (one.name.clone(), one.kind.clone())).collect();
        let kept = KEPT.with_borrow_mut(|kept| {
            let at = kept.iter().position(|one| one.shape == shape);
            at.map(|at| kept.remove(at))
        });
        kept.unwrap_or_else(|| Plans {
            shape,
            known: HashMap::new(),
            kept: 0,
            missed: 0,
            forms: Vec::new(),
        })
    }

    /// Keep the plans for the next chunk.
    pub fn keep(self) {
        KEPT.with_borrow_mut(|kept| {
            if kept.len() == MOST_SHAPES {
                kept.remove(0);
            }
            kept.push(self);
        });
    }

    /// The plan of a sequence, made if there is none.
    ///
    /// # Safety
    /// As `Fields::read`.
    pub unsafe fn of(
        &mut self,
        sequences: &Fields,
        entry: ListEntry,
        columns: &[Column],
        unknown: Unknown,
    ) -> Result<Rc<Plan>, String> {
        // SAFETY: see the caller's promise.
        unsafe {
            let key = (sequences.hash(entry), unknown);
            let same = |known: &&Known| sequences.is(entry, &known.sequence);
            let mut known = self.known.get(&key).into_iter().flatten();
            if let Some(known) = known.find(same) {
                return Ok(known.plan.clone());
            }
            let sequence = sequences.read(entry)?;
            let terms = terms::read(sequence.json.as_deref())
                .map_err(|error| format!("sequence has {error}"))?;
            let plan = Plan::new(&sequence.steps, terms, columns, Case::Insensitive, unknown)?;
            let plan = Rc::new(plan);
            let of = |one: &Step| OF_STEP + one.coefficients.len() * OF_COEFFICIENT;
            let bytes: usize = sequence.steps.iter().map(of).sum();
            // Where there are more than can be kept, the first of them stay: of rows in any order
            // as many are known as the share that is kept.
            if self.kept + bytes > MOST_BYTES {
                self.missed += bytes;
                if self.missed <= MOST_MISSES * MOST_BYTES {
                    return Ok(plan);
                }
                self.known.clear();
                (self.kept, self.missed) = (0, 0);
            }
            self.kept += bytes;
            self.known.entry(key).or_default().push(Known { sequence, plan: plan.clone() });
            Ok(plan)
        }
    }

    /// The form of the model at an entry, if it has one.
    ///
    /// # Safety
    /// As `of`.
    pub unsafe fn form(
        &mut self,
        models: &Fields,
        entry: ListEntry,
        columns: &[Column],
    ) -> Result<Option<&Form>, String> {
        // SAFETY: see the caller's promise.
        unsafe {
            let is = |one: &Form| models.has_names(entry, &one.names, one.json.as_deref());
            if let Some(at) = self.forms.iter().position(is) {
                self.forms[..=at].rotate_right(1);
                return Ok(Some(&self.forms[0]));
            }
            let model = models.read(entry)?;
            let terms = terms::read(model.json.as_deref())
                .map_err(|error| format!("sequence has {error}"))?;
            let case = Case::Insensitive;
            let plan = Plan::new(&model.steps, terms, columns, case, Unknown::default())?;
            let [Step { coefficients, .. }] = &model.steps[..] else { return Ok(None) };
            let names: Vec<Box<[u8]>> =
                coefficients.iter().map(|(name, _)| name.as_bytes().into()).collect();
            // A name that stands twice is one part.
            let factors = plan.factors().filter(|factors| factors.len() == names.len());
            let Some(factors) = factors else { return Ok(None) };
            self.forms.truncate(MOST_FORMS - 1);
            self.forms.insert(0, Form { names, json: model.json, factors });
            Ok(Some(&self.forms[0]))
        }
    }
}
