//! The entry points of the library as Python calls them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Int32Array, RecordBatch, RecordBatchIterator, StructArray, make_array,
};
use arrow_schema::ArrowError;
use dbselect_native::hosts::python as native;

/// Some texts of C, and where each is.
pub struct Texts {
    texts: Vec<CString>,
    at: Vec<*const c_char>,
}

impl Texts {
    /// Texts without NUL.
    pub fn new(texts: &[String]) -> Texts {
        let texts: Vec<CString> =
            texts.iter().map(|text| CString::new(&text[..]).expect("no NUL")).collect();
        let at = texts.iter().map(|text| text.as_ptr()).collect();
        Texts { texts, at }
    }

    /// The addresses, and how many.
    fn given(&self) -> (*const *const c_char, usize) {
        (self.at.as_ptr(), self.texts.len())
    }
}

/// A pass, as `dbselect._native.Reader`.
pub struct Reader {
    handle: *mut native::Reader,
    group: Option<String>,
    /// The keys that each set of sums met, from a number of them on.
    met: RefCell<BTreeMap<(i64, i64), Vec<i32>>>,
}

/// What a pass is asked.
#[derive(Clone, Default)]
pub struct Asked {
    /// The columns, and a letter for the policy of each.
    pub columns: Vec<String>,
    /// One letter a column.
    pub policies: String,
    /// Column of weights.
    pub weight: Option<String>,
    /// Column of the groups' keys, whole numbers.
    pub group: Option<String>,
    /// Categories: a field, its levels, the names of their columns, a policy's letter.
    pub categories: Vec<(String, Vec<String>, Vec<String>, String)>,
}

impl Reader {
    /// Start a pass.
    pub fn new(asked: &Asked) -> Reader {
        let columns = Texts::new(&asked.columns);
        let weights = Texts::new(asked.weight.as_slice());
        let weight = weights.at.first().copied().unwrap_or(null());
        let groups = Texts::new(asked.group.as_slice());
        let (by, n_by) = groups.given();
        let policies = Texts::new(std::slice::from_ref(&asked.policies));
        let (names, count) = columns.given();
        // SAFETY: all are texts of C, `names` as many as `count` says.
        let reader = unsafe {
            native::dbselect_reader_new(names, count, weight, by, n_by, policies.at[0], null())
        };
        assert!(!reader.is_null(), "the names and policies are valid");
        for (field, levels, names, policy) in &asked.categories {
            let (levels, names) = (Texts::new(levels), Texts::new(names));
            let one = Texts::new(&[field.clone(), policy.clone()]);
            let ((levels, n_levels), (names, n_names)) = (levels.given(), names.given());
            // SAFETY: as above, and no other call uses the reader.
            let added = unsafe {
                native::dbselect_reader_category(
                    reader, one.at[0], levels, n_levels, names, n_names, one.at[1],
                )
            };
            assert!(added, "the levels are valid");
        }
        Reader { handle: reader, group: asked.group.clone(), met: RefCell::default() }
    }

    /// Add batches.
    pub fn add(&self, batches: &[RecordBatch]) -> Result<(), String> {
        self.add_stream(&mut stream(batches), batches)
    }

    /// Add a stream of rows, whose keys stand in batches.
    pub fn add_stream(
        &self,
        stream: &mut FFI_ArrowArrayStream,
        batches: &[RecordBatch],
    ) -> Result<(), String> {
        // SAFETY: the reader is alive, and so is the stream; the structures are empty.
        let met = array(|array, schema| unsafe {
            native::dbselect_reader_add(self.handle, stream, -1, array, schema)
        })?;
        let keys: Vec<i32> = batches.iter().flat_map(|batch| self.keys_of(batch)).collect();
        self.meet(&met, &keys);
        Ok(())
    }

    fn keys_of(&self, batch: &RecordBatch) -> Vec<i32> {
        let column = self.group.as_ref().and_then(|name| batch.column_by_name(name));
        column.map(|keys| keys.as_primitive::<Int32Type>().values().to_vec()).unwrap_or_default()
    }

    fn meet(&self, met: &ArrayRef, keys: &[i32]) {
        if let [set, first, rows @ ..] = &met.as_primitive::<Int64Type>().values()[..] {
            let keys = rows.iter().map(|&row| keys[row as usize]).collect();
            self.met.borrow_mut().insert((*set, *first), keys);
        }
    }

    /// The state as bytes, and the keys of its groups.
    pub fn state(&self, note: &[u8]) -> Result<(Vec<u8>, Vec<i32>), String> {
        let keys = self.settle()?;
        // SAFETY: the note is as long as is said; the structures are empty.
        let bytes = array(|array, schema| unsafe {
            let (note, n) = (note.as_ptr(), note.len());
            native::states::dbselect_reader_state(self.handle, note, n, array, schema)
        })?;
        let bytes = bytes.as_any().downcast_ref::<arrow_array::LargeBinaryArray>();
        Ok((bytes.expect("bytes").value(0).to_vec(), keys))
    }

    /// Take in a state, whose groups have some keys.
    pub fn load(&self, part: &[u8], keys: &[i32]) -> Result<(), String> {
        let column: ArrayRef = Arc::new(Int32Array::from(keys.to_vec()));
        let mut given = self.group.as_ref().map(|name| {
            stream(&[RecordBatch::try_from_iter([(&name[..], column)]).expect("keys")])
        });
        let given = given.as_mut().map_or(null_mut(), |stream| stream as *mut _);
        // SAFETY: the bytes are as many as is said; the stream is alive, the structures empty.
        let met = array(|array, schema| unsafe {
            let (part, n) = (part.as_ptr(), part.len());
            native::states::dbselect_reader_load(self.handle, part, n, given, array, schema)
        })?;
        self.meet(&met, keys);
        Ok(())
    }

    /// The keys of the groups, once all sums are one set.
    fn settle(&self) -> Result<Vec<i32>, String> {
        // SAFETY: the structures are empty.
        let origins = array(|array, schema| unsafe {
            native::dbselect_reader_settle(self.handle, array, schema)
        })?;
        let mut met = self.met.borrow_mut();
        let all: Vec<i32> = met.values().flatten().copied().collect();
        let origins = origins.as_primitive::<Int64Type>().values();
        let keys: Vec<i32> = match self.group {
            None => vec![0],
            Some(_) => origins.iter().map(|&key| all[key as usize]).collect(),
        };
        *met = BTreeMap::from([((0, 0), keys.clone())]);
        Ok(keys)
    }

    /// The keys of the groups, and their records.
    pub fn finish(&self) -> Result<(Vec<i32>, StructArray), String> {
        let keys = self.settle()?;
        let order: Vec<usize> = (0..keys.len()).rev().collect();
        // SAFETY: the numbers are as many as is said; the structures are empty.
        let records = array(|array, schema| unsafe {
            let (order, n) = (order.as_ptr(), order.len());
            native::dbselect_reader_finish(self.handle, order, n, array, schema)
        })?;
        let records = records.as_any().downcast_ref::<StructArray>().expect("records").clone();
        Ok((keys.into_iter().rev().collect(), records))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: it comes from `dbselect_reader_new` and is not used again.
        unsafe { native::dbselect_reader_free(self.handle) }
    }
}

/// A stream of batches, of which there is at least one.
pub fn stream(batches: &[RecordBatch]) -> FFI_ArrowArrayStream {
    let schema = batches[0].schema();
    let batches: Vec<Result<_, ArrowError>> = batches.iter().cloned().map(Ok).collect();
    FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new(batches, schema)))
}

/// The folds of the rows of a batch; without columns the first field is the key.
pub fn folds(
    batch: &RecordBatch,
    columns: &[String],
    k: i64,
    seed: i64,
) -> Result<ArrayRef, String> {
    let (mut stream, columns) = (stream(std::slice::from_ref(batch)), Texts::new(columns));
    let (names, count) = columns.given();
    // SAFETY: the stream is alive, the names are as many as is said, the structures empty.
    array(|array, schema| unsafe {
        native::dbselect_folds(&mut stream, names, count, k, seed, array, schema)
    })
}

/// The distinct values of the first field of a batch.
pub fn distinct(batch: &RecordBatch) -> Result<ArrayRef, String> {
    let mut stream = stream(std::slice::from_ref(batch));
    // SAFETY: the stream is alive, the structures empty.
    array(|array, schema| unsafe { native::dbselect_distinct(&mut stream, array, schema) })
}

/// The sequences of records; a request is JSON.
pub fn search(records: &ArrayRef, request: &str) -> Result<StructArray, String> {
    let (mut records, request) = (one_field(records), Texts::new(&[request.to_string()]));
    // SAFETY: the stream is alive, the request a text, the structures empty.
    let found = array(|array, schema| unsafe {
        native::dbselect_search(&mut records, request.at[0], array, schema)
    })?;
    Ok(found.as_any().downcast_ref::<StructArray>().expect("answers").clone())
}

/// Why records cannot be searched.
pub fn check(records: &ArrayRef, target: &str) -> Result<ArrayRef, String> {
    let (mut records, target) = (one_field(records), Texts::new(&[target.to_string()]));
    // SAFETY: the stream is alive, the target a text, the structures empty.
    array(|array, schema| unsafe {
        native::dbselect_check(&mut records, target.at[0], array, schema)
    })
}

fn one_field(values: &ArrayRef) -> FFI_ArrowArrayStream {
    stream(&[RecordBatch::try_from_iter([("gram", values.clone())]).expect("one column")])
}

/// Import what a call writes.
fn array(
    call: impl FnOnce(*mut FFI_ArrowArray, *mut FFI_ArrowSchema) -> *mut c_char,
) -> Result<ArrayRef, String> {
    let (mut array, mut schema) = (FFI_ArrowArray::empty(), FFI_ArrowSchema::empty());
    told(call(&mut array, &mut schema))?;
    // SAFETY: the library has written both.
    let data = unsafe { from_ffi(array, &schema) }.expect("an array");
    data.validate_full().map_err(|error| format!("the library wrote {error}"))?;
    Ok(make_array(data))
}

/// The error of a call, in which a panic counts as a finding.
fn told(error: *mut c_char) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: an error is a text of the library's, freed once.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        native::dbselect_text_free(error);
        Err(text)
    }
}

/// Let errors of the library be: they are sentences. A panic, which is none, goes on.
pub fn no_panic<T>(answer: Result<T, String>) -> Result<Option<T>, String> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.contains("internal error") => Err(error),
        Err(error) if error.is_empty() => Err("an error without a sentence".to_string()),
        Err(error) if error.starts_with("the library wrote") => Err(error),
        Err(_) => Ok(None),
    }
}
