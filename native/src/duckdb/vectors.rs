//! DuckDB vectors: tables, records and sequences read, records written.
//!
//! DuckDB flattens vectors before it calls an extension, so row `r` lies at
//! index `r` of every vector; children of an ARRAY of size k lie at
//! `r * k + element`.

use std::borrow::Cow;
use std::ffi::{CStr, c_void};
use std::slice;

use super::api::{self, Handle, type_id};
use crate::chunk::Missing;
use crate::moments::Moments;
use crate::prefix::Step;
use crate::record::{RawRecord, Record};

/// A logical type that is destroyed when it goes out of scope.
pub struct LogicalType(Handle);

impl LogicalType {
    /// Take ownership of a type.
    ///
    /// # Safety
    /// `handle` is a live logical type that nobody else destroys.
    pub unsafe fn own(handle: Handle) -> LogicalType {
        LogicalType(handle)
    }

    /// The handle, on loan.
    pub fn handle(&self) -> Handle {
        self.0
    }

    fn id(&self) -> u32 {
        // SAFETY: the handle lives as long as `self`.
        unsafe { api::duckdb_get_type_id(self.0) }
    }

    /// Names and types of the fields of a STRUCT.
    fn fields(&self) -> Vec<(String, LogicalType)> {
        // SAFETY: the handle is a live STRUCT type; each name is copied and freed.
        unsafe {
            let field = |index| {
                let text = api::duckdb_struct_type_child_name(self.0, index);
                let name = CStr::from_ptr(text).to_string_lossy().into_owned();
                api::duckdb_free(text.cast());
                (name, LogicalType(api::duckdb_struct_type_child_type(self.0, index)))
            };
            (0..api::duckdb_struct_type_child_count(self.0)).map(field).collect()
        }
    }
}

impl Drop for LogicalType {
    fn drop(&mut self) {
        // SAFETY: owned, and destroyed once.
        unsafe { api::duckdb_destroy_logical_type(&mut self.0) }
    }
}

/// A vector of the chunk at hand.
#[derive(Clone, Copy)]
pub struct Vector(Handle);

impl Vector {
    /// Column `index` of a chunk.
    ///
    /// # Safety
    /// `chunk` is live for as long as the vector is used, and has that column.
    pub unsafe fn of_chunk(chunk: Handle, index: u64) -> Vector {
        // SAFETY: see the caller's promise.
        Vector(unsafe { api::duckdb_data_chunk_get_vector(chunk, index) })
    }

    /// A vector to write to.
    pub fn output(handle: Handle) -> Vector {
        Vector(handle)
    }

    /// The type of the vector.
    pub fn logical_type(self) -> LogicalType {
        // SAFETY: a live vector; the type is ours to destroy.
        LogicalType(unsafe { api::duckdb_vector_get_column_type(self.0) })
    }

    fn child(self, index: u64) -> Vector {
        // SAFETY: called for STRUCT vectors and existing fields only.
        Vector(unsafe { api::duckdb_struct_vector_get_child(self.0, index) })
    }

    fn elements(self) -> Vector {
        // SAFETY: called for LIST and MAP vectors only.
        Vector(unsafe { api::duckdb_list_vector_get_child(self.0) })
    }

    fn data<T>(self) -> *mut T {
        // SAFETY: a live vector.
        unsafe { api::duckdb_vector_get_data(self.0).cast() }
    }

    /// One bit a row, set where there is a value; null if all rows have one.
    fn validity(self) -> *const u64 {
        // SAFETY: a live vector.
        unsafe { api::duckdb_vector_get_validity(self.0) }
    }

    /// Whether row `row` is NULL.
    pub fn is_null(self, row: usize) -> bool {
        let validity = self.validity();
        // SAFETY: a validity mask has a bit for every row.
        !validity.is_null() && unsafe { *validity.add(row / 64) } >> (row % 64) & 1 == 0
    }

    /// # Safety
    /// The vector holds values of type `T`, at least `row + 1` of them.
    unsafe fn get<T: Copy>(self, row: usize) -> T {
        // SAFETY: see the caller's promise.
        unsafe { *self.data::<T>().add(row) }
    }

    fn set_null(self, row: usize) {
        // SAFETY: an output vector, whose mask has a bit for every row once
        // it is writable.
        unsafe {
            api::duckdb_vector_ensure_validity_writable(self.0);
            let mask = api::duckdb_vector_get_validity(self.0);
            *mask.add(row / 64) &= !(1 << (row % 64));
        }
    }
}

/// One column of a flattened row: see `crate::arrow::Leaf`, its twin there.
pub struct Leaf {
    /// Name of the flattened column.
    pub name: String,
    data: *const c_void,
    number: Number,
    place: Place,
    masks: Vec<(*const u64, Place)>,
}

#[derive(Clone, Copy, PartialEq)]
struct Place {
    stride: usize,
    start: usize,
}

impl Place {
    const ROW: Place = Place { stride: 1, start: 0 };

    fn of(self, row: usize) -> usize {
        row * self.stride + self.start
    }
}

/// How a number is stored, and what one unit of a DECIMAL is.
#[derive(Clone, Copy)]
struct Number {
    stored_as: u32,
    unit: f64,
}

/// Flatten a row of a chunk into numbers; nothing if the row has no type: NULL.
pub fn leaves(row: Vector) -> Result<Option<Vec<Leaf>>, String> {
    let row_type = row.logical_type();
    match row_type.id() {
        type_id::SQLNULL => return Ok(None),
        type_id::STRUCT => {}
        other => {
            return Err(format!(
                "row must be a STRUCT or a table name, not {}",
                type_id::name(other)
            ));
        }
    }
    let masks = mask_of(row, Place::ROW);
    let mut leaves = Vec::new();
    for (index, (name, field_type)) in row_type.fields().into_iter().enumerate() {
        if name.is_empty() {
            return Err("row has a field without a name; name every field".to_string());
        }
        flatten(name, row.child(index as u64), &field_type, Place::ROW, &masks, &mut leaves)?;
    }
    Ok(Some(leaves))
}

/// A plain number, such as a weight.
pub fn leaf(name: &str, vector: Vector) -> Result<Leaf, String> {
    let mut leaves = Vec::with_capacity(1);
    flatten(name.to_string(), vector, &vector.logical_type(), Place::ROW, &[], &mut leaves)?;
    let leaf = leaves.pop().ok_or_else(|| format!("{name} must be a number"))?;
    leaf.check().map(|()| leaf)
}

fn mask_of(vector: Vector, place: Place) -> Vec<(*const u64, Place)> {
    let validity = vector.validity();
    if validity.is_null() { Vec::new() } else { vec![(validity, place)] }
}

fn flatten(
    name: String,
    vector: Vector,
    logical_type: &LogicalType,
    place: Place,
    masks: &[(*const u64, Place)],
    out: &mut Vec<Leaf>,
) -> Result<(), String> {
    let mut masks = masks.to_vec();
    masks.extend(mask_of(vector, place));
    let mut number = Number { stored_as: logical_type.id(), unit: 1.0 };
    match number.stored_as {
        type_id::STRUCT => {
            for (index, (child, child_type)) in logical_type.fields().into_iter().enumerate() {
                let name = format!("{name}.{child}");
                flatten(name, vector.child(index as u64), &child_type, place, &masks, out)?;
            }
            return Ok(());
        }
        type_id::ARRAY => {
            // SAFETY: an ARRAY type and an ARRAY vector, both live.
            let (size, item, elements) = unsafe {
                (
                    api::duckdb_array_type_array_size(logical_type.0) as usize,
                    LogicalType(api::duckdb_array_type_child_type(logical_type.0)),
                    Vector(api::duckdb_array_vector_get_child(vector.0)),
                )
            };
            for element in 0..size {
                let place =
                    Place { stride: place.stride * size, start: place.start * size + element };
                flatten(format!("{name}[{}]", element + 1), elements, &item, place, &masks, out)?;
            }
            return Ok(());
        }
        type_id::DECIMAL => {
            // SAFETY: a live DECIMAL type.
            unsafe {
                number.stored_as = api::duckdb_decimal_internal_type(logical_type.0);
                number.unit = 10f64.powi(api::duckdb_decimal_scale(logical_type.0).into());
            }
        }
        _ => {}
    }
    out.push(Leaf { name, data: vector.data(), number, place, masks });
    Ok(())
}

impl Leaf {
    /// Refuse a column that is no number.
    pub fn check(&self) -> Result<(), String> {
        match self.number.stored_as {
            type_id::BOOLEAN..=type_id::DOUBLE
            | type_id::HUGEINT
            | type_id::UHUGEINT
            | type_id::SQLNULL => Ok(()),
            other => Err(format!(
                "column '{}' has type {}; columns must be numeric or boolean, \
                 leave it out with struct_pack(*COLUMNS(* EXCLUDE (...)))",
                self.name,
                type_id::name(other)
            )),
        }
    }

    /// The first `rows` values as doubles, borrowed where they are doubles.
    ///
    /// # Safety
    /// `check` passed, and the chunk has that many rows and lives as long as the
    /// result.
    pub unsafe fn doubles<'c>(&self, rows: usize) -> Cow<'c, [f64]> {
        let unit = self.number.unit;
        // SAFETY: the type of the vector says how its values are stored, and it
        // holds one for every row, or for every element of every row.
        unsafe {
            match self.number.stored_as {
                type_id::DOUBLE if self.place == Place::ROW => {
                    Cow::Borrowed(slice::from_raw_parts(self.data.cast(), rows))
                }
                type_id::DOUBLE => self.convert(rows, |x: f64| x),
                type_id::FLOAT => self.convert(rows, |x: f32| x.into()),
                // A BOOLEAN is a byte that need not be 0 or 1.
                type_id::BOOLEAN => self.convert(rows, |x: u8| f64::from(u8::from(x != 0))),
                type_id::TINYINT => self.convert(rows, |x: i8| x.into()),
                type_id::SMALLINT => self.convert(rows, |x: i16| f64::from(x) / unit),
                type_id::INTEGER => self.convert(rows, |x: i32| f64::from(x) / unit),
                type_id::BIGINT => self.convert(rows, |x: i64| x as f64 / unit),
                type_id::HUGEINT => self.convert(rows, |x: Wide<i128>| { x.0 } as f64 / unit),
                type_id::UTINYINT => self.convert(rows, |x: u8| x.into()),
                type_id::USMALLINT => self.convert(rows, |x: u16| x.into()),
                type_id::UINTEGER => self.convert(rows, |x: u32| x.into()),
                type_id::UBIGINT => self.convert(rows, |x: u64| x as f64),
                type_id::UHUGEINT => self.convert(rows, |x: Wide<u128>| { x.0 } as f64),
                // NULL has no values; its mask leaves every row out.
                _ => Cow::Owned(vec![0.0; rows]),
            }
        }
    }

    /// # Safety
    /// The data are values of type `T`, enough for `rows` rows.
    unsafe fn convert<'c, T: Copy>(
        &self,
        rows: usize,
        number: impl Fn(T) -> f64,
    ) -> Cow<'c, [f64]> {
        let values: *const T = self.data.cast();
        // SAFETY: see the caller's promise.
        let value = |row| number(unsafe { *values.add(self.place.of(row)) });
        Cow::Owned((0..rows).map(value).collect())
    }

    /// Leave out the rows where this column is NULL.
    ///
    /// # Safety
    /// The chunk is live and has `rows` rows.
    pub unsafe fn mark_missing(&self, rows: usize, missing: &mut Missing) {
        if self.number.stored_as == type_id::SQLNULL {
            missing.set_all(rows);
        }
        for &(mask, place) in &self.masks {
            // SAFETY: a mask has a bit for every row or element.
            let word = |index: usize| unsafe { *mask.add(index) };
            if place == Place::ROW {
                missing.set_invalid((0..rows.div_ceil(64)).map(word), rows);
                continue;
            }
            for row in 0..rows {
                let at = place.of(row);
                if word(at / 64) >> (at % 64) & 1 == 0 {
                    missing.set(row, rows);
                }
            }
        }
    }
}

/// DuckDB aligns 128-bit integers to eight bytes only.
#[repr(C, packed(8))]
#[derive(Clone, Copy)]
struct Wide<T>(T);

/// `duckdb_list_entry`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListEntry {
    offset: u64,
    length: u64,
}

impl ListEntry {
    fn range(self) -> std::ops::Range<usize> {
        self.offset as usize..(self.offset + self.length) as usize
    }
}

/// `duckdb_string_t`: up to twelve bytes inline, longer text by pointer.
#[repr(C)]
#[derive(Clone, Copy)]
struct Text {
    length: u32,
    inline: [u8; 12],
}

/// # Safety
/// A VARCHAR vector with at least `row + 1` rows, that one not NULL.
unsafe fn text(vector: Vector, row: usize) -> String {
    // SAFETY: see the caller's promise; long text has its pointer in the last
    // eight of the inline bytes.
    unsafe {
        let entry = vector.data::<Text>().add(row);
        let Text { length, inline } = *entry;
        let bytes = if length as usize <= inline.len() {
            inline[..length as usize].to_vec()
        } else {
            let pointer = (&raw const (*entry).inline[4]).cast::<*const u8>().read_unaligned();
            slice::from_raw_parts(pointer, length as usize).to_vec()
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Row `row` of a vector of Gram records; NULL gives nothing.
///
/// # Safety
/// The vector is live, of the type of `types::record`, and has that row.
pub unsafe fn read_record(vector: Vector, row: usize) -> Result<Option<Record>, String> {
    if vector.is_null(row) {
        return Ok(None);
    }
    let field = |index: usize| {
        let field = vector.child(index as u64);
        let name = crate::record::FIELDS[index];
        if field.is_null(row) {
            return Err(format!("gram record has NULL in '{name}'"));
        }
        Ok(field)
    };
    // SAFETY: the fields have the types of a record, and are not NULL here.
    unsafe {
        let list = |index: usize| {
            let field = field(index)?;
            let (range, elements) = (field.get::<ListEntry>(row).range(), field.elements());
            if range.clone().any(|i| elements.is_null(i)) {
                let name = crate::record::FIELDS[index];
                return Err(format!("gram record has a NULL element in '{name}'"));
            }
            Ok((range, elements))
        };
        let doubles = |index| {
            let (range, elements) = list(index)?;
            let start = elements.data::<f64>().add(range.start);
            // An empty list may come without data.
            Ok::<_, String>(if range.is_empty() {
                Vec::new()
            } else {
                slice::from_raw_parts(start, range.len()).to_vec()
            })
        };
        let (names, elements) = list(0)?;
        let raw = RawRecord {
            columns: names.map(|i| text(elements, i)).collect(),
            rows: field(1)?.get(row),
            skipped: field(2)?.get(row),
            weight: field(3)?.get(row),
            mean: doubles(4)?,
            comoment: doubles(5)?,
        };
        raw.check().map(Some)
    }
}

/// Which steps row `row` of a vector of sequences holds; NULL gives nothing.
///
/// # Safety
/// The vector is live, of the type of `types::sequence`, and has that row.
pub unsafe fn sequence_entry(vector: Vector, row: usize) -> Option<ListEntry> {
    // SAFETY: see the caller's promise.
    (!vector.is_null(row)).then(|| unsafe { vector.get(row) })
}

/// The steps of one sequence.
///
/// # Safety
/// As above, and `entry` comes from `sequence_entry` of that vector.
pub unsafe fn read_steps(vector: Vector, entry: ListEntry) -> Result<Vec<Step>, String> {
    let steps = vector.elements();
    let field = |name: &str| {
        let index = super::types::STEP_FIELDS.iter().position(|field| field.0 == name);
        steps.child(index.expect("a field of a step") as u64)
    };
    let (step, group, spent) = (field("step"), field("group"), field("spent"));
    let (intercept, coefficients) = (field("intercept"), field("coefficients"));
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
            let entries = coefficients.elements();
            let (names, values) = (entries.child(0), entries.child(1));
            let range = coefficients.get::<ListEntry>(row).range();
            if range.clone().any(|i| values.is_null(i)) {
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
    entry.range().map(read).collect()
}

/// Write records to rows `offset ..` of a vector; an absent one is NULL.
///
/// # Safety
/// The vector is an output of the type of `types::record` with enough rows.
pub unsafe fn write_records(out: Vector, offset: usize, records: &[Option<(&[String], &Moments)>]) {
    let child = |index| out.child(index);
    // SAFETY: the fields have these types; lists are grown before they are written.
    unsafe {
        let present = || records.iter().flatten();
        let lists = [
            (child(0), present().map(|(names, _)| names.len()).sum::<usize>()),
            (child(4), present().map(|(names, _)| names.len()).sum()),
            (child(5), present().map(|(_, moments)| moments.comoment.len()).sum()),
        ];
        let mut ends = lists.map(|(list, more)| {
            let size = api::duckdb_list_vector_get_size(list.0);
            api::duckdb_list_vector_reserve(list.0, size + more as u64);
            api::duckdb_list_vector_set_size(list.0, size + more as u64);
            size as usize
        });
        // Asked for after the lists have grown, which moves them.
        let [names_out, means_out, comoments_out] = lists.map(|(list, _)| list.elements());
        for (row, record) in (offset..).zip(records) {
            let Some((names, moments)) = record else {
                out.set_null(row);
                for index in 0..6 {
                    child(index).set_null(row);
                }
                for ((list, _), end) in lists.iter().zip(ends) {
                    let entry = ListEntry { offset: end as u64, length: 0 };
                    list.data::<ListEntry>().add(row).write(entry);
                }
                continue;
            };
            child(1).data::<i64>().add(row).write(moments.rows as i64);
            child(2).data::<i64>().add(row).write(moments.skipped as i64);
            child(3).data::<f64>().add(row).write(moments.weight);
            for (i, name) in (ends[0]..).zip(names.iter()) {
                write_text(names_out, i, name);
            }
            let mean = moments.mean();
            copy(&mean, means_out, ends[1]);
            copy(&moments.comoment, comoments_out, ends[2]);
            let lengths = [names.len(), mean.len(), moments.comoment.len()];
            for (((list, _), end), length) in lists.iter().zip(&mut ends).zip(lengths) {
                let entry = ListEntry { offset: *end as u64, length: length as u64 };
                list.data::<ListEntry>().add(row).write(entry);
                *end += length;
            }
        }
    }
}

/// # Safety
/// A DOUBLE vector with room for the values.
unsafe fn copy(values: &[f64], out: Vector, start: usize) {
    // SAFETY: see the caller's promise; the memory is DuckDB's, so no overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(values.as_ptr(), out.data::<f64>().add(start), values.len());
    }
}

/// # Safety
/// An output VARCHAR vector with that row.
unsafe fn write_text(out: Vector, row: usize, text: &str) {
    // SAFETY: see the caller's promise; DuckDB copies the bytes.
    unsafe {
        let (bytes, length) = (text.as_ptr().cast(), text.len() as u64);
        api::duckdb_vector_assign_string_element_len(out.0, row as u64, bytes, length);
    }
}

/// Write one prediction; an absent one is NULL.
///
/// # Safety
/// The vector is an output of the type of `types::prediction` with that row.
pub unsafe fn write_prediction(out: Vector, row: usize, found: Option<crate::prefix::Prediction>) {
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
