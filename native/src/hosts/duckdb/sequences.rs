//! Sequences, models and predictions in DuckDB vectors.

use std::ops::Range;

use super::api::type_id;
use super::types::STEP_FIELDS;
use super::vectors::{ListEntry, Text, Vector, View, bytes, text, write_text, write_texts};
use crate::linear::groups::Groups;
use crate::record::inputs::Rows;
use crate::record::prefix::{Prediction, Step};
use crate::search::sequence::Sequence;
use crate::search::steps::Action;

/// The fields of some sequences, or of models, each of which is as one step.
pub struct Fields {
    /// Which sequence each row has, where they lie in the predictors of families.
    predictors: Option<View<ListEntry>>,
    /// Which steps each row has; none of models.
    lists: Option<View<ListEntry>>,
    /// The steps, or the models.
    steps: Vector,
    /// Models have none of these three.
    step: Option<Vector>,
    group: Option<Vector>,
    spent: Option<Vector>,
    intercept: Vector,
    coefficients: Vector,
    names: View<Text>,
    values: View<f64>,
    terms: Option<Vector>,
}

/// Rows that have the same key have the same sequence or model.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    entry: ListEntry,
    intercept: u64,
    terms: Option<Text>,
}

impl Fields {
    /// Those of a vector of sequences or models, in which fields may stand in any order.
    ///
    /// Sequences of a family lie in its `predictors`, a LIST of STRUCT(class, sequence).
    pub fn of(models: Vector) -> Result<Fields, String> {
        let predictors = child_of(models, "predictors").filter(|own| own.is_list());
        let inner = predictors.and_then(|own| child_of(own.elements(), "sequence"));
        // SAFETY: a LIST.
        let predictors = predictors.filter(|_| inner.is_some()).map(|own| unsafe { View::of(own) });
        let models = inner.unwrap_or(models);
        let is_list = models.is_list();
        let steps = if is_list { models.elements() } else { models };
        let what = if is_list { "sequence" } else { "model" };
        if steps.logical_type().id() != type_id::STRUCT {
            let found = type_id::name(models.logical_type().id());
            return Err(format!("model has type {found}; it must be a model or a sequence"));
        }
        let fields = steps.logical_type().fields();
        let field = |name: &str, types: &[u32]| {
            let found = fields.iter().position(|field| field.0.eq_ignore_ascii_case(name));
            let at = found.ok_or_else(|| format!("{what} has no field '{name}'"))?;
            let id = fields[at].1.id();
            let own = types.contains(&id).then(|| steps.child(at as u64));
            own.ok_or_else(|| format!("{what} has '{name}' of type {}", type_id::name(id)))
        };
        let coefficients = field("coefficients", &[type_id::MAP, type_id::LIST])?;
        let entries = coefficients.elements();
        let kinds: Vec<u32> =
            entries.logical_type().fields().iter().map(|(_, own)| own.id()).collect();
        if kinds != [type_id::VARCHAR, type_id::DOUBLE] {
            return Err(format!("{what} has 'coefficients' that do not map names to doubles"));
        }
        let of_steps = |name, id| match is_list {
            true => field(name, &[id]).map(Some),
            false => Ok(None),
        };
        let terms = [type_id::VARCHAR, type_id::SQLNULL];
        let terms = fields.iter().any(|one| one.0 == "terms").then(|| field("terms", &terms));
        let text = |own: &Vector| own.logical_type().id() == type_id::VARCHAR;
        Ok(Fields {
            predictors,
            // SAFETY: a LIST.
            lists: is_list.then(|| unsafe { View::of(models) }),
            steps,
            step: of_steps("step", type_id::BIGINT)?,
            group: of_steps("group", type_id::VARCHAR)?,
            spent: of_steps("spent", type_id::DOUBLE)?,
            intercept: field("intercept", &[type_id::DOUBLE])?,
            coefficients,
            // SAFETY: the types were checked.
            names: unsafe { View::of(entries.child(0)) },
            // SAFETY: as above.
            values: unsafe { View::of(entries.child(1)) },
            terms: terms.transpose()?.filter(text),
        })
    }

    /// Whether these are models, not sequences.
    pub fn are_models(&self) -> bool {
        self.lists.is_none()
    }

    /// Whether so many rows have one sequence or model, whose entries are the same.
    ///
    /// # Safety
    /// The chunk is live and has these rows.
    pub unsafe fn are_one(&self, rows: usize) -> bool {
        // SAFETY: see the caller's promise; the fields have these types.
        unsafe {
            if let Some(lists) = self.predictors.or(self.lists) {
                return lists.has_one_value(rows);
            }
            let there = self.steps.are_there(rows);
            let terms = |terms: Vector| match terms.is_null(0) {
                true => (1..rows).all(|row| terms.is_null(row)),
                false => View::<Text>::of(terms).has_one_value(rows),
            };
            there
                && View::<ListEntry>::of(self.coefficients).has_one_value(rows)
                && View::<f64>::of(self.intercept).has_one_value(rows)
                && self.terms.is_none_or(terms)
        }
    }

    /// What tells rows apart, and where the steps of a row lie; nothing where it is NULL, or has
    /// a predictor for each of several classes, which `Family::parse` refuses.
    pub fn keys(&self) -> impl Fn(usize) -> Option<(Key, ListEntry)> {
        let Fields { predictors, lists, steps, .. } = *self;
        // SAFETY: the fields have these types.
        let (coefficients, intercepts, terms) = unsafe {
            let terms = self.terms.map(|terms| View::<Text>::of(terms));
            (View::<ListEntry>::of(self.coefficients), View::<f64>::of(self.intercept), terms)
        };
        // SAFETY: the callers ask for rows of the chunk.
        move |row| unsafe {
            if let Some(lists) = lists {
                let row = match predictors {
                    Some(own) => own.at(row).filter(|own| own.length == 1)?.offset as usize,
                    None => row,
                };
                let entry = lists.at(row)?;
                return Some((Key { entry, intercept: 0, terms: None }, entry));
            }
            if steps.is_null(row) {
                return None;
            }
            let key = Key {
                entry: coefficients.at(row).unwrap_or(ListEntry { offset: 0, length: 0 }),
                intercept: intercepts.at(row).unwrap_or(f64::NAN).to_bits(),
                terms: terms.and_then(|terms| terms.at(row)),
            };
            Some((key, ListEntry { offset: row as u64, length: 1 }))
        }
    }

    /// Which of some rows has the terms.
    fn terms_at(&self, rows: Range<usize>) -> Option<(Vector, usize)> {
        let (mut rows, terms) = (rows, self.terms?);
        let found = rows.find(|&row| !self.steps.is_null(row) && !terms.is_null(row));
        found.map(|row| (terms, row))
    }

    /// # Safety
    /// The fields are live, and have these rows.
    unsafe fn is_json(&self, rows: Range<usize>, known: Option<&str>) -> bool {
        // SAFETY: a VARCHAR that is not NULL.
        let own = self.terms_at(rows).map(|(terms, row)| unsafe { bytes(terms, row) });
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
                && self.are_models() == known.is_model
                && both.all(|(row, known)| self.is_step(row, known))
                && self.is_json(entry.range(), known.json.as_deref())
        }
    }

    /// Read a sequence or a model.
    ///
    /// # Safety
    /// The vector is live, and `entry` comes from `keys` of it.
    pub unsafe fn read(&self, entry: ListEntry) -> Result<Stored, String> {
        let Fields { steps, step, group, spent, intercept, coefficients, names, values, .. } =
            *self;
        let what = if self.are_models() { "model" } else { "sequence has a step" };
        let read = |row: usize| {
            for (name, vector) in [
                ("step", step),
                ("spent", spent),
                ("intercept", Some(intercept)),
                ("coefficients", Some(coefficients)),
            ] {
                if steps.is_null(row) || vector.is_some_and(|vector| vector.is_null(row)) {
                    return Err(format!("{what} with NULL in '{name}'"));
                }
            }
            // SAFETY: the fields have these types and are not NULL.
            unsafe {
                let range = coefficients.get::<ListEntry>(row).range();
                let term = |i| {
                    let name = names.bytes_at(i)?;
                    Some((String::from_utf8_lossy(name).into_owned(), values.at(i)?))
                };
                let terms: Option<Vec<(String, f64)>> = range.map(term).collect();
                let Some(coefficients) = terms else {
                    let what = if self.are_models() { "model" } else { "sequence" };
                    return Err(format!("{what} has a NULL coefficient"));
                };
                let group = group.filter(|group| !group.is_null(row));
                Ok(Step {
                    step: step.map_or(0, |step| step.get(row)),
                    group: group.map(|group| text(group, row)),
                    spent: spent.map_or(0.0, |spent| spent.get(row)),
                    intercept: intercept.get(row),
                    coefficients,
                })
            }
        };
        let steps = entry.range().map(read).collect::<Result<_, _>>()?;
        let json = self.terms_at(entry.range());
        // SAFETY: see the caller's promise; a VARCHAR that is not NULL.
        let json = json.map(|(terms, row)| unsafe { text(terms, row) });
        Ok(Stored { steps, json, is_model: self.are_models() })
    }

    /// Whether a model has these names, in this order, and these terms.
    ///
    /// # Safety
    /// As `read`.
    pub unsafe fn has_names(
        &self,
        entry: ListEntry,
        names: &[Box<[u8]>],
        json: Option<&str>,
    ) -> bool {
        let row = entry.offset as usize;
        if self.intercept.is_null(row) || self.coefficients.is_null(row) {
            return false;
        }
        // SAFETY: the fields have these types and are not NULL.
        unsafe {
            let range = self.coefficients.get::<ListEntry>(row).range();
            range.len() == names.len()
                && range.zip(names).all(|(i, name)| self.names.bytes_at(i) == Some(&name[..]))
                && self.is_json(entry.range(), json)
        }
    }

    /// The intercept of a model, and its coefficients; NaN is no coefficient.
    ///
    /// # Safety
    /// As `read`, of a model of which `has_names` is true.
    pub unsafe fn numbers(&self, entry: ListEntry, into: &mut Vec<f64>) -> f64 {
        let row = entry.offset as usize;
        // SAFETY: see the caller's promise.
        unsafe {
            let range = self.coefficients.get::<ListEntry>(row).range();
            into.clear();
            into.extend(range.map_while(|i| self.values.at(i)));
            self.intercept.get(row)
        }
    }

    /// Whether a row is a step, field by field.
    ///
    /// # Safety
    /// The fields are live, and have that row.
    unsafe fn is_step(&self, row: usize, known: &Step) -> bool {
        let Fields { steps, step, group, spent, intercept, coefficients, names, values, .. } =
            *self;
        let nulls = [Some(steps), step, spent, Some(intercept), Some(coefficients)];
        if nulls.iter().flatten().any(|vector| vector.is_null(row)) {
            return false;
        }
        // SAFETY: the fields have these types and are not NULL.
        unsafe {
            let range = coefficients.get::<ListEntry>(row).range();
            let own_group = group.filter(|group| !group.is_null(row));
            let own_group = own_group.map(|group| bytes(group, row));
            let same = |(i, (name, value)): (usize, &(String, f64))| {
                values.at(i).is_some_and(|own| own.to_bits() == value.to_bits())
                    && names.bytes_at(i) == Some(name.as_bytes())
            };
            own_group == known.group.as_ref().map(|name| name.as_bytes())
                && step.is_none_or(|step| step.get::<i64>(row) == known.step)
                && spent.is_none_or(|spent| spent.get::<f64>(row) == known.spent)
                && intercept.get::<f64>(row).to_bits() == known.intercept.to_bits()
                && range.len() == known.coefficients.len()
                && range.zip(&known.coefficients).all(same)
        }
    }
}

/// A field of a STRUCT vector, of any case; nothing where there is none.
pub fn child_of(models: Vector, name: &str) -> Option<Vector> {
    let model = models.logical_type();
    let fields = if model.id() == type_id::STRUCT { model.fields() } else { Vec::new() };
    let at = fields.iter().position(|(own, _)| own.eq_ignore_ascii_case(name))?;
    Some(models.child(at as u64))
}

/// The steps of one sequence, or one model, and its terms, which the first has.
pub struct Stored {
    /// The steps.
    pub steps: Vec<Step>,
    /// Their terms as JSON, if they have any.
    pub json: Option<String>,
    /// Whether it is a model.
    pub is_model: bool,
}

/// Predictions to write.
pub struct Predictions {
    all: Vector,
    fields: [Vector; 4],
    /// Whether only the prediction is known: models have no steps.
    are_of_models: bool,
}

impl Predictions {
    /// Those of an output vector of the type of `types::prediction`.
    pub fn of(out: Vector, are_of_models: bool) -> Predictions {
        let fields = std::array::from_fn(|index| out.child(index as u64));
        Predictions { all: out, fields, are_of_models }
    }

    /// The values.
    pub fn values(&self) -> Vector {
        self.fields[0]
    }

    /// Write one prediction; an absent one is NULL.
    ///
    /// # Safety
    /// The vector has that row.
    pub unsafe fn write(&self, row: usize, found: Option<Prediction>) {
        match found {
            // SAFETY: see the caller's promise.
            Some(found) => unsafe { self.write_all(&Rows::These(&[row]), &[found.value], &found) },
            None => {
                self.all.set_null(row);
                self.fields.iter().for_each(|field| field.set_null(row));
            }
        }
    }

    /// Write the values of some rows, whose other fields are the same.
    ///
    /// # Safety
    /// The vector has these rows, as many as there are values.
    pub unsafe fn write_all(&self, rows: &Rows, values: &[f64], same: &Prediction) {
        let [value, step, spent, next_group] = self.fields;
        let null = |field: Vector| match rows {
            Rows::All(rows) => field.set_first_null(*rows),
            Rows::These(rows) => field.set_nulls(rows.iter().copied()),
        };
        // SAFETY: see the caller's promise; the fields have these types.
        unsafe {
            write_each(value, rows, |at| values[at]);
            if self.are_of_models {
                return [step, spent, next_group].into_iter().for_each(null);
            }
            write_each(step, rows, |_| same.step);
            write_each(spent, rows, |_| same.spent);
            match same.next_group {
                Some(group) => {
                    write_texts(next_group, (0..rows.count()).map(|at| rows.at(at)), group);
                }
                None => null(next_group),
            }
        }
    }
}

/// Write a value to each of some rows.
///
/// # Safety
/// An output vector of the type with these rows.
pub unsafe fn write_each<T>(out: Vector, rows: &Rows, value: impl Fn(usize) -> T) {
    let out = out.data::<T>();
    // SAFETY: see the caller's promise.
    unsafe {
        match rows {
            Rows::All(rows) => (0..*rows).for_each(|row| out.add(row).write(value(row))),
            Rows::These(rows) => {
                rows.iter().enumerate().for_each(|(at, &row)| out.add(row).write(value(at)));
            }
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
            let paid = step.checked_sub(1).map_or(0.0, |before| sequence.paid[before]);
            let numbers = taken.map_or([0.0; 3], |taken| [paid, taken.gain, taken.explained]);
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
