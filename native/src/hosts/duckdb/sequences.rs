//! Sequences and predictions in DuckDB vectors.

use std::ops::Range;

use super::types::STEP_FIELDS;
use super::vectors::{ListEntry, Vector, bytes, text, write_text};
use crate::record::prefix::{Prediction, Step};
use crate::search::groups::Groups;
use crate::search::sequence::Sequence;
use crate::search::steps::Action;

/// Which steps row `row` of a vector of sequences holds; NULL gives nothing.
///
/// # Safety
/// The vector is live, of the type of `types::sequence`, and has that row.
pub unsafe fn sequence_entry(vector: Vector, row: usize) -> Option<ListEntry> {
    // SAFETY: see the caller's promise.
    (!vector.is_null(row)).then(|| unsafe { vector.get(row) })
}

/// The fields of the steps of some sequences.
pub struct Fields {
    steps: Vector,
    step: Vector,
    group: Vector,
    spent: Vector,
    intercept: Vector,
    coefficients: Vector,
    names: Vector,
    values: Vector,
    terms: Vector,
}

impl Fields {
    /// Those of a vector of sequences.
    pub fn of(sequences: Vector) -> Fields {
        let steps = sequences.elements();
        let field = |name: &str| {
            let index = STEP_FIELDS.iter().position(|field| field.0 == name);
            steps.child(index.expect("a field of a step") as u64)
        };
        let entries = field("coefficients").elements();
        Fields {
            steps,
            step: field("step"),
            group: field("group"),
            spent: field("spent"),
            intercept: field("intercept"),
            coefficients: field("coefficients"),
            names: entries.child(0),
            values: entries.child(1),
            terms: field("terms"),
        }
    }

    /// Which of some rows has the terms.
    fn terms_at(&self, rows: Range<usize>) -> Option<usize> {
        let mut rows = rows;
        rows.find(|&row| !self.steps.is_null(row) && !self.terms.is_null(row))
    }

    /// # Safety
    /// The fields are live, and have these rows.
    unsafe fn is_json(&self, rows: Range<usize>, known: Option<&str>) -> bool {
        // SAFETY: a VARCHAR that is not NULL.
        let own = self.terms_at(rows).map(|row| unsafe { bytes(self.terms, row) });
        own == known.map(str::as_bytes)
    }

    /// A number that equal sequences share, and others hardly ever.
    ///
    /// # Safety
    /// As `read`.
    pub unsafe fn hash(&self, entry: ListEntry) -> u64 {
        let last = entry.range().last().filter(|&row| !self.intercept.is_null(row));
        // SAFETY: the field has this type and is not NULL.
        last.map_or(0, |row| unsafe { self.intercept.get::<f64>(row) }.to_bits())
    }

    /// Whether an entry is some sequence.
    ///
    /// # Safety
    /// As `read`.
    pub unsafe fn is(&self, entry: ListEntry, known: &Stored) -> bool {
        let mut both = entry.range().zip(&known.steps);
        // SAFETY: see the caller's promise.
        unsafe {
            entry.length as usize == known.steps.len()
                && both.all(|(row, known)| self.is_step(row, known))
                && self.is_json(entry.range(), known.json.as_deref())
        }
    }

    /// Read a sequence.
    ///
    /// # Safety
    /// The vector is live, and `entry` comes from `sequence_entry` of it.
    pub unsafe fn read(&self, entry: ListEntry) -> Result<Stored, String> {
        let Fields { steps, step, group, spent, intercept, coefficients, names, values, .. } =
            *self;
        let read = |row: usize| {
            for (name, vector) in [
                ("step", step),
                ("spent", spent),
                ("intercept", intercept),
                ("coefficients", coefficients),
            ] {
                if steps.is_null(row) || vector.is_null(row) {
                    return Err(format!("sequence has a step with NULL in '{name}'"));
                }
            }
            // SAFETY: the fields have these types and are not NULL.
            unsafe {
                let range = coefficients.get::<ListEntry>(row).range();
                if range.clone().any(|i| names.is_null(i) || values.is_null(i)) {
                    return Err("sequence has a NULL coefficient".to_string());
                }
                Ok(Step {
                    step: step.get(row),
                    group: (!group.is_null(row)).then(|| text(group, row)),
                    spent: spent.get(row),
                    intercept: intercept.get(row),
                    coefficients: range.map(|i| (text(names, i), values.get(i))).collect(),
                })
            }
        };
        let steps = entry.range().map(read).collect::<Result<_, _>>()?;
        // SAFETY: see the caller's promise; a VARCHAR that is not NULL.
        let json = self.terms_at(entry.range()).map(|row| unsafe { text(self.terms, row) });
        Ok(Stored { steps, json })
    }

    /// Whether a row is a step, field by field.
    ///
    /// # Safety
    /// The fields are live, and have that row.
    unsafe fn is_step(&self, row: usize, known: &Step) -> bool {
        let Fields { steps, step, group, spent, intercept, coefficients, names, values, .. } = self;
        let nulls = [steps, step, spent, intercept, coefficients];
        if nulls.iter().any(|vector| vector.is_null(row)) {
            return false;
        }
        // SAFETY: the fields have these types and are not NULL.
        unsafe {
            let range = coefficients.get::<ListEntry>(row).range();
            let same_group = match &known.group {
                None => group.is_null(row),
                Some(name) => !group.is_null(row) && bytes(*group, row) == name.as_bytes(),
            };
            let same = |(i, (name, value)): (usize, &(String, f64))| {
                !(names.is_null(i) || values.is_null(i))
                    && values.get::<f64>(i).to_bits() == value.to_bits()
                    && bytes(*names, i) == name.as_bytes()
            };
            same_group
                && step.get::<i64>(row) == known.step
                && spent.get::<f64>(row) == known.spent
                && intercept.get::<f64>(row).to_bits() == known.intercept.to_bits()
                && range.len() == known.coefficients.len()
                && range.zip(&known.coefficients).all(same)
        }
    }
}

/// The steps of one sequence, and its terms, which the first has.
pub struct Stored {
    /// The steps.
    pub steps: Vec<Step>,
    /// Their terms as JSON, if they have any.
    pub json: Option<String>,
}

/// Write one prediction; an absent one is NULL.
///
/// # Safety
/// The vector is an output of the type of `types::prediction` with that row.
pub unsafe fn write_prediction(out: Vector, row: usize, found: Option<Prediction>) {
    let child = |index| out.child(index);
    let Some(found) = found else {
        out.set_null(row);
        (0..4).for_each(|index| child(index).set_null(row));
        return;
    };
    // SAFETY: the fields have these types.
    unsafe {
        child(0).data::<f64>().add(row).write(found.value);
        child(1).data::<i64>().add(row).write(found.step);
        child(2).data::<f64>().add(row).write(found.spent);
        match found.next_group {
            Some(group) => write_text(child(3), row, group),
            None => child(3).set_null(row),
        }
    }
}

/// Write a sequence, with its groups and its terms as JSON; an absent one has no steps.
///
/// # Safety
/// The vector is an output of the type of `types::sequence` with that row; the rows before it
/// are written.
pub unsafe fn write_sequence(
    out: Vector,
    row: usize,
    found: Option<(&Sequence, &Groups, Option<&str>)>,
) {
    let count = found.map_or(0, |(sequence, ..)| sequence.steps.len() + 1);
    let first = out.grow(count);
    // SAFETY: the fields have these types; lists are grown before they are written.
    unsafe {
        let entry = ListEntry { offset: first as u64, length: count as u64 };
        out.data::<ListEntry>().add(row).write(entry);
        let Some((sequence, groups, terms)) = found else {
            return;
        };
        let steps = out.elements();
        let fields: [Vector; STEP_FIELDS.len()] =
            std::array::from_fn(|index| steps.child(index as u64));
        let [number, action, group, cost, spent, score, gain, explained, r2, useful, rest @ ..] =
            fields;
        let [intercept, coefficients, terms_out] = rest;
        let before = coefficients.grow(sequence.columns.len());
        let entries = coefficients.elements();
        for (at, &column) in (before..).zip(&sequence.columns) {
            write_text(entries.child(0), at, &groups.members[column]);
        }
        entries.child(1).write(before, &sequence.coefficients);
        spent.write(first, &sequence.spent);
        r2.write(first, &sequence.r2);
        intercept.write(first, &sequence.intercept);
        let mut start = 0;
        for (step, &end) in sequence.ends.iter().enumerate() {
            let at = first + step;
            number.data::<i64>().add(at).write(step as i64);
            let model = ListEntry { offset: (before + start) as u64, length: (end - start) as u64 };
            coefficients.data::<ListEntry>().add(at).write(model);
            start = end;
            let taken = step.checked_sub(1).map(|before| &sequence.steps[before]);
            let numbers = taken
                .map_or([0.0; 3], |taken| [groups.costs[taken.group], taken.gain, taken.explained]);
            for (field, value) in [cost, gain, explained].into_iter().zip(numbers) {
                field.data::<f64>().add(at).write(value);
            }
            useful.data::<bool>().add(at).write(taken.is_none_or(|taken| taken.is_useful()));
            match taken {
                Some(taken) => {
                    let name = match taken.action {
                        Action::Add => "add",
                        Action::Remove => "remove",
                    };
                    write_text(action, at, name);
                    write_text(group, at, &groups.names[taken.group]);
                    score.data::<f64>().add(at).write(taken.score);
                }
                None => {
                    write_text(action, at, "start");
                    group.set_null(at);
                    score.set_null(at);
                }
            }
            match terms.filter(|_| step == 0) {
                Some(terms) => write_text(terms_out, at, terms),
                None => terms_out.set_null(at),
            }
        }
    }
}
