//! Plans that are kept from chunk to chunk, one a sequence.
//!
//! DuckDB copies one sequence to every chunk of a table, and a join the sequence of a
//! segment to each of its rows. They are identified by content, which costs far less than
//! planning. `crate::record::sequences` is the same for Polars.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::sequences::{Fields, Stored};
use super::vectors::ListEntry;
use crate::record::inputs::{Column, Kind, Unknown};
use crate::record::prefix::{Case, Plan};
use crate::record::terms;

/// Plans that are kept of rows of one shape.
const MOST_PLANS: usize = 256;
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
    count: usize,
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
        kept.unwrap_or_else(|| Plans { shape, known: HashMap::new(), count: 0 })
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
            if self.count == MOST_PLANS {
                self.known.clear();
                self.count = 0;
            }
            self.count += 1;
            self.known.entry(key).or_default().push(Known { sequence, plan: plan.clone() });
            Ok(plan)
        }
    }
}
