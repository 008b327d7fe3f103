//! The entry points of the library as Python calls them.

use std::ffi::{CStr, CString, c_char};
use std::ptr::null;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, StructArray, make_array};
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
pub struct Reader(*mut native::Reader);

/// What a pass is asked.
#[derive(Clone, Default)]
pub struct Asked {
    /// The columns, and a letter for the policy of each.
    pub columns: Vec<String>,
    /// One letter a column.
    pub policies: String,
    /// Column of weights.
    pub weight: Option<String>,
    /// Column of the groups' numbers.
    pub group: Option<String>,
    /// Categories: a field, its levels, the names of their columns, a policy's letter.
    pub categories: Vec<(String, Vec<String>, Vec<String>, String)>,
}

impl Reader {
    /// Start a pass.
    pub fn new(asked: &Asked) -> Reader {
        let columns = Texts::new(&asked.columns);
        let optional: Vec<String> =
            [&asked.weight, &asked.group].into_iter().flatten().cloned().collect();
        let optional = Texts::new(&optional);
        let mut at = optional.at.iter().copied();
        let mut pointer =
            |text: &Option<String>| text.as_ref().map_or(null(), |_| at.next().expect("one"));
        let (weight, group) = (pointer(&asked.weight), pointer(&asked.group));
        let policies = Texts::new(std::slice::from_ref(&asked.policies));
        let (names, count) = columns.given();
        // SAFETY: all are texts of C, `names` as many as `count` says.
        let reader = unsafe {
            native::dbselect_reader_new(names, count, weight, group, policies.at[0], null())
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
        Reader(reader)
    }

    /// Add batches.
    pub fn add(&self, batches: &[RecordBatch]) -> Result<(), String> {
        self.add_stream(&mut stream(batches))
    }

    /// Add a stream.
    pub fn add_stream(&self, stream: &mut FFI_ArrowArrayStream) -> Result<(), String> {
        // SAFETY: the reader is alive, and so is the stream.
        told(unsafe { native::dbselect_reader_add(self.0, stream) })
    }

    /// The state as bytes.
    pub fn state(&self, note: &[u8]) -> Result<Vec<u8>, String> {
        // SAFETY: the note is as long as is said; the structures are empty.
        let bytes = array(|array, schema| unsafe {
            native::states::dbselect_reader_state(self.0, note.as_ptr(), note.len(), array, schema)
        })?;
        let bytes = bytes.as_any().downcast_ref::<arrow_array::LargeBinaryArray>();
        Ok(bytes.expect("bytes").value(0).to_vec())
    }

    /// Take in a state.
    pub fn load(&self, part: &[u8], groups: &[usize]) -> Result<(), String> {
        // SAFETY: both are as long as is said.
        told(unsafe {
            native::states::dbselect_reader_load(
                self.0,
                part.as_ptr(),
                part.len(),
                groups.as_ptr(),
                groups.len(),
            )
        })
    }

    /// The records, one a group.
    pub fn finish(&self) -> Result<StructArray, String> {
        // SAFETY: the structures are empty.
        let records = array(|array, schema| unsafe {
            native::dbselect_reader_finish(self.0, array, schema)
        })?;
        Ok(records.as_any().downcast_ref::<StructArray>().expect("records").clone())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: it comes from `dbselect_reader_new` and is not used again.
        unsafe { native::dbselect_reader_free(self.0) }
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

/// The sequences of records; a request is a batch of one row.
pub fn search(records: &ArrayRef, request: &RecordBatch) -> Result<StructArray, String> {
    let (mut records, mut request) = (one_field(records), stream(std::slice::from_ref(request)));
    // SAFETY: the streams are alive, the structures empty.
    let found = array(|array, schema| unsafe {
        native::dbselect_search(&mut records, &mut request, None, array, schema)
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
