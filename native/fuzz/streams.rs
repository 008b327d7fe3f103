//! Arrow C streams as other libraries write them: all that the interface allows gives the exact
//! sums, and what breaks it in a way that can be seen gives an error.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null;

use arrow_array::Array;
use arrow_array::StructArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_schema::DataType;

use crate::draw::Draw;
use crate::host::{Reader, no_panic};
use crate::tables::{Table, cut};

/// What a producer does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    /// A batch is a stretch of longer children, by the offset of the batch itself.
    Offset,
    /// How many values are missing is not counted.
    Uncounted,
    /// Reading fails after the first batch, with a message or without.
    Fails(bool),
    /// There is no schema.
    NoSchema,
    /// The rows are no struct.
    NoStruct,
    /// A batch lacks its last field.
    FewerFields,
    /// A field is shorter than its batch says.
    Shorter,
}

/// The layout of `ArrowArray`, which the interface has frozen.
#[repr(C)]
struct Layout {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Layout,
}

/// The layout of `ArrowArrayStream`.
#[repr(C)]
struct Stream {
    get_schema: unsafe extern "C" fn(*mut Stream, *mut FFI_ArrowSchema) -> c_int,
    get_next: unsafe extern "C" fn(*mut Stream, *mut FFI_ArrowArray) -> c_int,
    get_last_error: unsafe extern "C" fn(*mut Stream) -> *const c_char,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    producer: *mut Producer,
}

/// A stream that is still to be read.
struct Producer {
    schema: FFI_ArrowSchema,
    batches: Vec<FFI_ArrowArray>,
    manner: Manner,
    message: CString,
}

/// Draw a table and a producer of it.
pub fn case(draw: &mut Draw) -> Result<(), String> {
    let table = Table::of(draw);
    let manner = match draw.below(8) {
        0 | 1 => Manner::Offset,
        2 => Manner::Uncounted,
        3 => Manner::Fails(draw.one_in(2)),
        4 => Manner::NoSchema,
        5 => Manner::NoStruct,
        6 => Manner::FewerFields,
        _ => Manner::Shorter,
    };
    let parts = cut(draw, table.batch.num_rows());
    // A stretch that is not the whole table: what lies outside must not count.
    let rows = match manner {
        Manner::Offset => parts[draw.below(parts.len())].clone(),
        _ => 0..table.batch.num_rows(),
    };
    let array = StructArray::from(table.batch.clone());
    let mut batch = FFI_ArrowArray::new(&array.to_data());
    // SAFETY: the structure has the layout of the interface, and lives.
    let layout = unsafe { &mut *(&raw mut batch).cast::<Layout>() };
    change(layout, manner, rows.start as i64, rows.len() as i64);
    let data_type = match manner {
        Manner::NoStruct => DataType::Int64,
        _ => array.data_type().clone(),
    };
    let schema = FFI_ArrowSchema::try_from(data_type).map_err(|error| error.to_string())?;
    let message = CString::new("the disk is gone").expect("no NUL");
    let mut stream = Producer { schema, batches: vec![batch], manner, message }.stream();
    let reader = Reader::new(&table.asked);
    let given = table.batch.slice(rows.start, rows.len());
    // SAFETY: both are the structure that the interface has frozen.
    let added = reader.add_stream(unsafe { &mut *(&raw mut stream).cast() }, &[given]);
    match manner {
        Manner::Offset | Manner::Uncounted => {
            added?;
            let records = reader.finish()?;
            table.rows(rows).compare(&records)
        }
        // An inconsistent batch may be a panic of Arrow's that is caught, and never a crash.
        Manner::FewerFields | Manner::Shorter => match added {
            Ok(()) => no_panic(reader.finish()).map(|_| ()),
            Err(_) => Ok(()),
        },
        _ => match no_panic(added)? {
            Some(()) => Err(format!("{manner:?} is taken")),
            None => Ok(()),
        },
    }
}

/// Change a batch as a manner has it.
fn change(batch: &mut Layout, manner: Manner, start: i64, rows: i64) {
    // SAFETY: a struct has as many children as it says, and at least one.
    let children =
        unsafe { std::slice::from_raw_parts_mut(batch.children, batch.n_children as usize) };
    match manner {
        Manner::Offset => (batch.offset, batch.length) = (start, rows),
        // SAFETY: the children live as long as the batch.
        Manner::Uncounted => children.iter().for_each(|&child| unsafe { (*child).null_count = -1 }),
        Manner::FewerFields => batch.n_children -= 1,
        // SAFETY: as above.
        Manner::Shorter => unsafe { (*children[0]).length = rows / 2 },
        _ => {}
    }
}

impl Producer {
    fn stream(self) -> Stream {
        let producer = Box::into_raw(Box::new(self));
        Stream { get_schema, get_next, get_last_error, release: Some(release), producer }
    }
}

/// The producer of a stream.
fn producer<'p>(stream: *mut Stream) -> &'p mut Producer {
    // SAFETY: `Producer::stream` made it, and it lives until `release`.
    unsafe { &mut *(*stream).producer }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut FFI_ArrowSchema) -> c_int {
    let producer = producer(stream);
    if producer.manner == Manner::NoSchema {
        return 22;
    }
    let schema = std::mem::replace(&mut producer.schema, FFI_ArrowSchema::empty());
    // SAFETY: the consumer hands an empty structure over.
    unsafe { out.write(schema) };
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut FFI_ArrowArray) -> c_int {
    let producer = producer(stream);
    match (producer.batches.pop(), producer.manner) {
        // SAFETY: as above.
        (Some(batch), _) => unsafe { out.write(batch) },
        (None, Manner::Fails(_)) => return 5,
        // SAFETY: as above; a released array ends a stream.
        (None, _) => unsafe { out.write(FFI_ArrowArray::empty()) },
    }
    0
}

unsafe extern "C" fn get_last_error(stream: *mut Stream) -> *const c_char {
    match producer(stream).manner {
        Manner::Fails(false) => null(),
        _ => producer(stream).message.as_ptr(),
    }
}

unsafe extern "C" fn release(stream: *mut Stream) {
    // SAFETY: the box is of `Producer::stream`, and is freed once.
    unsafe {
        drop(Box::from_raw((*stream).producer));
        (*stream).release = None;
    }
}
