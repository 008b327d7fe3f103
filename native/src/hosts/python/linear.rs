//! Entry points for the state of a linear problem, whose correlations are NumPy's or are read by
//! Python as they are needed.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use super::guard;
use super::turns::{OnTurn, calling};
use crate::linear::bounds::upper_bounds;
use crate::linear::prefixes::{degrees, prefix_coefficients, response_gains};
use crate::linear::prices::{Prices, Rules};
use crate::linear::problem::{Linear, Rows, first_of_same};
use crate::linear::state::{Buffers, State};
use crate::methods::Method;
use crate::methods::conditions::conditions;
use crate::methods::given;
use crate::methods::sets::worth::{Per, prices_at_worth};
use crate::search::steps::{Interrupted, Step, Stop};
use crate::search::walks::criteria::{Criterion, Rule};
use crate::search::walks::greedy::{Limits, greedy_search};
use crate::words::value::Value;

/// Why a call ends that reads rows which Python does not bring.
const UNREAD: &str = "rows of the Gram were not read";

const IN_USE: &str = "the state is in use: it cannot be read by what a call of it calls";

const POISONED: &str = "an earlier call failed; the state cannot be used";

/// Rows that are needed, and where Python writes them.
///
/// All fields are numbers and addresses, so that no byte that comes back can be a value that Rust
/// forbids.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Needed {
    columns: *const usize,
    count: usize,
    rows: *mut f64,
    /// 1 once they are there; 0 unless the function says otherwise.
    is_read: u8,
}

/// Called for rows. The answer is a field and not the result, as in `turns::OnTurn`.
pub type OnNeed = unsafe extern "C" fn(*mut Needed);

/// A linear problem: pointers to C doubles and numbers of Python's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// D and K.
    width: usize,
    responses: usize,
    /// D times D correlations, or null where calls bring them.
    correlations: *const f64,
    /// Of each group in turn its own block, without the ridge; null where correlations are there.
    blocks: *const f64,
    /// Diagonal of the correlations, D doubles.
    variances: *const f64,
    /// What rounding is judged by, D doubles, or null.
    scale: *const f64,
    /// K times D doubles.
    target: *const f64,
    /// D doubles, then D, then D bytes of 0 or 1.
    ridge: *const f64,
    unit: *const f64,
    constant: *const u8,
    /// The columns of all groups, where those of each begin, and where the last end.
    members: *const usize,
    starts: *const usize,
    /// J.
    groups: usize,
}

/// What is known of correlations without a call of Python.
#[derive(Debug)]
enum Source {
    /// All of them, row by row.
    Memory(&'static [f64]),
    /// Those within each group, and where the block begins of the group that begins with a column.
    Blocks(Vec<f64>, Vec<usize>),
}

/// The columns of groups, one after the other, among those of a Gram.
#[derive(Debug)]
struct Gathered {
    source: Source,
    /// D of the Gram.
    width: usize,
    /// The column of the Gram of each column here.
    column: Vec<usize>,
    /// Whether these are those of the Gram in their order.
    is_whole: bool,
    variances: Vec<f64>,
}

impl Gathered {
    fn gather(&self, row: &[f64], into: &mut [f64]) {
        match self.is_whole {
            true => into.copy_from_slice(row),
            false => into.iter_mut().zip(&self.column).for_each(|(x, &j)| *x = row[j]),
        }
    }
}

/// Correlations for the length of one call, which has its own function for rows.
#[derive(Debug)]
struct Reading {
    gathered: Arc<Gathered>,
    on_need: Option<OnNeed>,
    /// Rows that are read already, and of which columns.
    ahead: (Vec<usize>, Vec<f64>),
    /// Whether rows that were needed were not read; then none are read any more.
    has_failed: AtomicBool,
}

impl Reading {
    fn of(gathered: &Arc<Gathered>, on_need: Option<OnNeed>) -> Reading {
        let (ahead, has_failed) = Default::default();
        Reading { gathered: gathered.clone(), on_need, ahead, has_failed }
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Have Python write the rows of some columns of the Gram; zeros are left where it does not.
    fn bring(&self, columns: &[usize]) -> Vec<f64> {
        let mut rows = vec![0.0; columns.len() * self.gathered.width];
        let (at, count) = (columns.as_ptr(), columns.len());
        let mut needed = Needed { columns: at, count, rows: rows.as_mut_ptr(), is_read: 0 };
        if let (Some(on_need), false) = (self.on_need, self.has_failed()) {
            // SAFETY: the caller keeps the function for as long as the call lasts, and it writes
            // only the rows, for which there is room, and the answer. No exception passes through:
            // ctypes lets none out.
            unsafe { on_need(&mut needed) };
        }
        if needed.is_read == 0 {
            self.has_failed.store(true, Ordering::Relaxed);
            rows.fill(0.0);
        }
        rows
    }
}

impl Rows for Reading {
    fn read(&self, columns: &[usize], rows: &mut [f64]) {
        let Gathered { source, width, column, .. } = &*self.gathered;
        let numbers: Vec<usize> = columns.iter().map(|&j| column[j]).collect();
        let known = |j: &usize| self.ahead.0.iter().position(|other| other == j);
        let brought;
        let (all, places) = match (source, numbers.iter().map(known).collect()) {
            (Source::Memory(all), _) => (*all, numbers),
            (_, Some(places)) => (&self.ahead.1[..], places),
            (_, None) => {
                brought = self.bring(&numbers);
                (&brought[..], (0..numbers.len()).collect())
            }
        };
        for (at, into) in places.into_iter().zip(rows.chunks_exact_mut(column.len().max(1))) {
            self.gathered.gather(&all[at * width..][..*width], into);
        }
    }

    fn append_block(&self, columns: Range<usize>, blocks: &mut Vec<f64>) {
        let Gathered { source, width, column, variances, .. } = &*self.gathered;
        let size = columns.len();
        match source {
            _ if size == 1 => blocks.push(variances[column[columns.start]]),
            Source::Memory(all) => {
                let own = &column[columns];
                for &i in own {
                    blocks.extend(own.iter().map(|&j| all[i * width + j]));
                }
            }
            Source::Blocks(all, starts) if size > 0 => {
                let start = starts[columns.start];
                blocks.extend_from_slice(&all[start..start + size * size]);
            }
            Source::Blocks(..) => (),
        }
    }

    fn variance(&self, column: usize) -> f64 {
        self.gathered.variances[self.gathered.column[column]]
    }
}

/// What every copy of a state shares.
#[derive(Debug)]
struct Setting {
    problem: Linear,
    gathered: Arc<Gathered>,
    starts: Vec<usize>,
    /// J; groups of one column each follow, of columns that are in none.
    groups: usize,
    /// Of each column of the Gram the first here.
    first: Vec<usize>,
}

/// A linear problem with some groups selected.
#[derive(Debug)]
pub struct Selection {
    setting: Arc<Setting>,
    buffers: Mutex<Buffers>,
    /// The thread whose call is under way.
    user: Mutex<Option<ThreadId>>,
}

/// The arrays of a state for the length of a call.
struct InUse<'s> {
    buffers: MutexGuard<'s, Buffers>,
    state: &'s Selection,
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        *self.state.user() = None;
    }
}

impl Setting {
    /// # Safety
    /// The pointers are to as many numbers as their fields say. Correlations live as long as the
    /// result, and nobody changes them.
    unsafe fn of(given: &Given) -> Result<Setting, String> {
        let Given { width, responses, groups, .. } = *given;
        // SAFETY: see the caller's promise; nothing is read from null, as slices of 0 doubles have
        // an address that is not used.
        let (members, mut starts, variances, scale, target, ridge, unit, constant) = unsafe {
            let doubles = |at: *const f64, count: usize| numbers(at, count).to_vec();
            let starts = numbers(given.starts, groups + 1).to_vec();
            let count = starts[groups];
            (
                numbers(given.members, count).to_vec(),
                starts,
                doubles(given.variances, width),
                doubles(given.scale, if given.scale.is_null() { 0 } else { width }),
                doubles(given.target, responses * width),
                doubles(given.ridge, width),
                doubles(given.unit, width),
                numbers(given.constant, width).to_vec(),
            )
        };
        if responses == 0 || !starts.is_sorted() || starts[0] != 0 {
            return Err("groups of a linear problem do not fit its columns".to_string());
        }
        if let Some(column) = members.iter().find(|&&column| column >= width) {
            return Err(format!("a group has column {column}; there are {width}"));
        }
        let mut first = vec![usize::MAX; width];
        let mut column = members;
        for (at, &j) in column.iter().enumerate().rev() {
            first[j] = at;
        }
        for (j, first) in first.iter_mut().enumerate().filter(|(_, at)| **at == usize::MAX) {
            *first = column.len();
            column.push(j);
            starts.push(column.len());
        }
        let source = if !given.correlations.is_null() {
            // SAFETY: see the caller's promise.
            Source::Memory(unsafe { numbers(given.correlations, width * width) })
        } else if !given.blocks.is_null() {
            let mut places = vec![0; column.len() + 1];
            let mut end = 0;
            for bounds in starts[..=groups].windows(2) {
                places[bounds[0]] = end;
                end += (bounds[1] - bounds[0]).pow(2);
            }
            // SAFETY: see the caller's promise.
            Source::Blocks(unsafe { numbers(given.blocks, end) }.to_vec(), places)
        } else {
            return Err("a linear problem has no correlations".to_string());
        };
        let pick = |values: &[f64]| column.iter().map(|&j| values[j]).collect::<Vec<f64>>();
        let mut problem = Linear {
            target: target.chunks_exact(width.max(1)).flat_map(pick).collect(),
            ridge: pick(&ridge),
            unit: pick(&unit),
            scale: if scale.is_empty() { scale } else { pick(&scale) },
            constant: column.iter().map(|&j| constant[j] != 0).collect(),
            ..Linear::default()
        };
        first_of_same(&column, &mut problem.same);
        let is_whole = column.len() == width && column.iter().enumerate().all(|(at, &j)| at == j);
        let gathered = Arc::new(Gathered { source, width, column, is_whole, variances });
        problem.rows = Some(Arc::new(Reading::of(&gathered, None)));
        Ok(Setting { problem, gathered, starts, groups, first })
    }

    /// The problem as one call has it, with its own rows where Python brings them.
    fn read_by(&self, reading: &Arc<Reading>) -> Cow<'_, Linear> {
        match self.gathered.source {
            Source::Memory(_) => Cow::Borrowed(&self.problem),
            Source::Blocks(..) => {
                Cow::Owned(Linear { rows: Some(reading.clone()), ..self.problem.clone() })
            }
        }
    }
}

impl Selection {
    fn new(setting: Arc<Setting>, buffers: Buffers) -> *mut Selection {
        let (buffers, user) = (Mutex::new(buffers), Mutex::default());
        Box::into_raw(Box::new(Selection { setting, buffers, user }))
    }

    fn user(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait for other threads; a call from within one that is under way is refused.
    fn locked(&self) -> Result<InUse<'_>, String> {
        let this = Some(thread::current().id());
        if *self.user() == this {
            return Err(IN_USE.to_string());
        }
        let buffers = self.buffers.lock().map_err(|_| POISONED.to_string())?;
        *self.user() = this;
        Ok(InUse { buffers, state: self })
    }

    /// Do something that reads no rows.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, String> {
        Ok(self.resume(&mut self.locked()?.buffers, &self.setting.problem, work))
    }

    fn resume<T>(
        &self,
        kept: &mut Buffers,
        problem: &Linear,
        work: impl FnOnce(&mut State) -> T,
    ) -> T {
        let mut state = State::resumed(problem, &self.setting.starts, std::mem::take(kept));
        let found = work(&mut state);
        *kept = state.into_buffers();
        found
    }

    /// Do something that may read rows, and nothing if these cannot be read.
    fn with_rows<T>(
        &self,
        on_need: Option<OnNeed>,
        work: impl FnOnce(&mut State, &Reading) -> T,
    ) -> Result<T, String> {
        let mut kept = self.locked()?;
        let reading = Arc::new(Reading::of(&self.setting.gathered, on_need));
        let problem = self.setting.read_by(&reading);
        let before = matches!(problem, Cow::Owned(_)).then(|| kept.buffers.clone());
        let found = self.resume(&mut kept.buffers, &problem, |state| work(state, &reading));
        if reading.has_failed() {
            *kept.buffers = before.unwrap_or_default();
            return Err(UNREAD.to_string());
        }
        Ok(found)
    }

    /// Select groups, whose rows are read before anything changes.
    fn add_all(&self, groups: &[usize], on_need: Option<OnNeed>) -> Result<f64, String> {
        let Setting { starts, gathered, groups: count, .. } = &*self.setting;
        let mut kept = self.locked()?;
        let is_waiting = |state: &mut State| {
            let is_new = |(at, group): (usize, &usize)| {
                *group < *count && state.waiting()[*group] && !groups[..at].contains(group)
            };
            groups.iter().enumerate().all(is_new)
        };
        if !self.resume(&mut kept.buffers, &self.setting.problem, is_waiting) {
            return Err(format!("groups {groups:?} are not all there to be selected"));
        }
        let mut reading = Reading::of(gathered, on_need);
        let slots = groups.iter().flat_map(|&group| starts[group]..starts[group + 1]);
        let mut columns: Vec<usize> = slots.map(|at| gathered.column[at]).collect();
        if matches!(gathered.source, Source::Blocks(..)) && !columns.is_empty() {
            columns.sort_unstable();
            columns.dedup();
            let rows = reading.bring(&columns);
            if reading.has_failed() {
                return Err(UNREAD.to_string());
            }
            reading.ahead = (columns, rows);
        }
        let problem = self.setting.read_by(&Arc::new(reading));
        Ok(self.resume(&mut kept.buffers, &problem, |state| state.add_all(groups)))
    }

    /// Write what a state has: see `dbselect_linear_read`.
    fn read(&self, what: u8, on_need: Option<OnNeed>, into: *mut f64) -> Result<(), String> {
        let setting = &*self.setting;
        let (width, responses) = (setting.gathered.width, setting.problem.responses());
        let place = |at: usize| setting.gathered.column[at];
        // SAFETY: the caller of `dbselect_linear_read` has room for as many doubles.
        let room = |count: usize| unsafe { slice::from_raw_parts_mut(into, count) };
        let of_groups =
            |all: Vec<f64>| room(setting.groups).copy_from_slice(&all[..setting.groups]);
        let by_column = |all: &[f64], into: &mut [f64]| {
            into.iter_mut().zip(&setting.first).for_each(|(x, &at)| *x = all[at]);
        };
        let mut all = Vec::new();
        match what {
            0 => self.with(|state| state.gains(&mut all)).map(|()| of_groups(all)),
            1 => {
                self.with_rows(on_need, |state, _| state.losses(&mut all)).map(|()| of_groups(all))
            }
            2 => self.with(|state| {
                let rows = state.gradient().chunks_exact(setting.problem.width().max(1));
                rows.zip(room(responses * width).chunks_exact_mut(width.max(1)))
                    .for_each(|(b, into)| by_column(b, into));
            }),
            3 => self.with(|state| by_column(&state.left(state.support().len()), room(width))),
            4 => self.with(|state| {
                state.coefficients(&mut all);
                let rank = state.support().len().max(1);
                let rows = room(responses * width).chunks_exact_mut(width.max(1));
                for (coef, into) in all.chunks_exact(rank).zip(rows) {
                    state.support().iter().zip(coef).for_each(|(&at, w)| into[place(at)] = *w);
                }
            }),
            5 => self.with(|state| {
                let count = state.held().len() + 1;
                prefix_coefficients(state, width, place, room(count * responses * width));
            }),
            6 => self.with(|state| {
                let gains = response_gains(state);
                room(gains.len()).copy_from_slice(&gains);
            }),
            7 => self.with(|state| room(1)[0] = state.explained()),
            8 => self.with(|state| room(1)[0] = degrees(state)),
            9 => self.with(|state| room(1)[0] = state.condition()),
            10 => self.with(|state| room(1)[0] = f64::from(u8::from(state.is_indefinite()))),
            11 => self.with(|state| {
                state.invert();
                let rank = state.support().len();
                let rows = state.inverse().chunks_exact(setting.problem.width().max(1));
                for (row, into) in rows.zip(room(rank * rank).chunks_exact_mut(rank.max(1))) {
                    into.copy_from_slice(&row[..rank]);
                }
            }),
            12 => self.with(|state| {
                room(state.coordinates().len()).copy_from_slice(state.coordinates());
            }),
            _ => Err(format!("a state has no numbers {what}")),
        }
    }
}

/// # Safety
/// `at` has `count` numbers that live as long as the result, or there are none.
unsafe fn numbers<'n, T>(at: *const T, count: usize) -> &'n [T] {
    // SAFETY: see the caller's promise.
    if count == 0 { &[] } else { unsafe { slice::from_raw_parts(at, count) } }
}

/// Write a new state of a problem, no group selected, to `state`, for `dbselect_linear_free`.
/// Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `given` keeps the promise of `Setting::of`, for as long as the state and its copies live;
/// `state` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_new(
    given: *const Given,
    state: *mut *mut Selection,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let setting = unsafe { Setting::of(&*given) }?;
        let empty = State::new(&setting.problem, &setting.starts, Buffers::default());
        let buffers = empty.into_buffers();
        // SAFETY: see the caller's promise.
        unsafe { state.write(Selection::new(Arc::new(setting), buffers)) };
        Ok(())
    })
}

/// Write a copy of a state, that changes alone, to `copy`, for `dbselect_linear_free`. Null comes
/// back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `state` comes from here and lives; `copy` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_copy(
    state: *const Selection,
    copy: *mut *mut Selection,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let state = unsafe { &*state };
        let buffers = state.locked()?.buffers.clone();
        // SAFETY: see the caller's promise.
        unsafe { copy.write(Selection::new(state.setting.clone(), buffers)) };
        Ok(())
    })
}

/// Free a state.
///
/// # Safety
/// `state` comes from here, and nobody uses it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_free(state: *mut Selection) {
    // SAFETY: see the caller's promise.
    drop(unsafe { Box::from_raw(state) });
}

/// Select `count` groups and write what they gain together. Null comes back, or an error text for
/// `dbselect_text_free`; then nothing has changed.
///
/// # Safety
/// `state` comes from here and lives; `on_need` can be called on this thread until this call returns,
/// and writes only rows and the answer; `groups` holds `count` numbers; `gain` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_add(
    state: *const Selection,
    on_need: Option<OnNeed>,
    groups: *const usize,
    count: usize,
    gain: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (state, groups) = unsafe { (&*state, numbers(groups, count)) };
        let found = state.add_all(groups, on_need)?;
        // SAFETY: see the caller's promise.
        unsafe { gain.write(found) };
        Ok(())
    })
}

/// Give a group back and write its loss. Null comes back, or an error text for
/// `dbselect_text_free`; then nothing has changed.
///
/// # Safety
/// `state` comes from here and lives; `on_need` as in `dbselect_linear_add`; `loss` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_remove(
    state: *const Selection,
    on_need: Option<OnNeed>,
    group: usize,
    loss: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let state = unsafe { &*state };
        let remove = |state: &mut State, _: &Reading| {
            let is_held = state.held().iter().any(|held| held.group == group);
            is_held.then(|| state.remove(group))
        };
        let found = state.with_rows(on_need, remove)?;
        let found = found.ok_or_else(|| format!("group {group} is not selected"))?;
        // SAFETY: see the caller's promise.
        unsafe { loss.write(found) };
        Ok(())
    })
}

/// Write which groups and columns are selected: their number n of groups, r of rows of U and a of
/// aliased columns, then the groups, the columns of the rows and the aliased columns. Null comes
/// back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `state` comes from here and lives; `into` has room for 3 numbers, one for each group and one for
/// each column of a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_selected(
    state: *const Selection,
    into: *mut usize,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let state = unsafe { &*state };
        state.with(|own| {
            let column = |&at: &usize| state.setting.gathered.column[at];
            let (aliased, held) = (own.aliased(), own.held());
            let counts = [held.len(), own.support().len(), aliased.len()];
            let groups = held.iter().map(|held| held.group);
            let columns = own.support().iter().chain(&aliased).map(column);
            let all = counts.into_iter().chain(groups).chain(columns);
            // SAFETY: see the caller's promise.
            all.enumerate().for_each(|(at, number)| unsafe { into.add(at).write(number) });
        })
    })
}

/// Write numbers of a state to `into`. Null comes back, or an error text for `dbselect_text_free`.
///
/// | `what` | numbers |
/// |---|---|
/// | 0, 1 | gain, loss of each of J groups |
/// | 2 | gradient, K times D |
/// | 3 | what is left of the variance of each of D columns |
/// | 4 | coefficients, K times D; only those of selected columns are written |
/// | 5 | the same after 0, 1, ... groups |
/// | 6 | gain of each of K responses by each group |
/// | 7, 8, 9 | what is explained, degrees of freedom, condition number |
/// | 10 | 1 if no rows have such columns |
/// | 11 | M, a row for each of U |
/// | 12 | coordinates, K for each row of U |
///
/// # Safety
/// `state` comes from here and lives; `on_need` as in `dbselect_linear_add`; `into` has room for as
/// many doubles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_read(
    state: *const Selection,
    on_need: Option<OnNeed>,
    what: u8,
    into: *mut f64,
) -> *mut c_char {
    // SAFETY: see the caller's promise.
    guard(|| unsafe { &*state }.read(what, on_need, into))
}

/// Write U at `count` columns, row by row. Null comes back, or an error text for
/// `dbselect_text_free`.
///
/// # Safety
/// `state` comes from here and lives; `columns` holds `count` numbers below D; `into` has room for
/// as many doubles for each row of U.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_factor(
    state: *const Selection,
    columns: *const usize,
    count: usize,
    into: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (state, columns) = unsafe { (&*state, numbers(columns, count)) };
        let at: Vec<usize> = columns.iter().map(|&j| state.setting.first[j]).collect();
        let found = state.with(|own| own.factor_at(&at))?;
        // SAFETY: see the caller's promise.
        unsafe { slice::from_raw_parts_mut(into, found.len()) }.copy_from_slice(&found);
        Ok(())
    })
}

/// Write the most that groups within each of some budgets explain, by the prefixes of `order`. Null
/// comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `state` comes from here and lives; `on_need` as in `dbselect_linear_add`; `order` holds `count`
/// numbers of groups, `costs` a double for each group; `budgets` and `bounds` have `limits` doubles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_bounds(
    state: *const Selection,
    on_need: Option<OnNeed>,
    order: *const usize,
    count: usize,
    costs: *const f64,
    budgets: *const f64,
    limits: usize,
    bounds: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let setting = unsafe { &*(*state).setting };
        // SAFETY: as above.
        let (order, costs, budgets) = unsafe {
            let costs = numbers(costs, setting.groups);
            (numbers(order, count), costs, numbers(budgets, limits))
        };
        let reading = Arc::new(Reading::of(&setting.gathered, on_need));
        let problem = setting.read_by(&reading);
        let found = upper_bounds(&problem, &setting.starts, costs, order, budgets);
        if reading.has_failed() {
            return Err(UNREAD.to_string());
        }
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(bounds, limits) }.copy_from_slice(&found);
        Ok(())
    })
}

/// A greedy search.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Greedy {
    /// The name of a rule.
    rule: *const c_char,
    /// What each of J groups costs.
    costs: *const f64,
    /// What each of P parts of groups costs, or null; the parts of each group, one group after the
    /// other; and where those of each of J groups end.
    prices: *const f64,
    n_prices: usize,
    parts: *const usize,
    ends: *const usize,
    /// Conditions on sets of groups, by name of the field, as JSON; groups are named by numbers.
    told: *const c_char,
    /// Groups to take first.
    always: *const usize,
    n_always: usize,
    /// Limits; NaN and the largest number mean none.
    budget: f64,
    first_cost: f64,
    max_groups: usize,
}

/// The rules of a greedy search, if it has any.
///
/// # Safety
/// As in `dbselect_linear_greedy`.
unsafe fn rules(greedy: &Greedy, costs: &[f64]) -> Result<Option<Rules>, String> {
    // SAFETY: see the caller's promise.
    let told = unsafe { CStr::from_ptr(greedy.told) }.to_string_lossy();
    let told: serde_json::Value =
        serde_json::from_str(&told).map_err(|error| format!("conditions: {error}"))?;
    let Value::Map(values) = told.into() else { return Err("conditions have no names".into()) };
    let method = Method::of("anytime_sequence").ok_or("there is no such method")?;
    let told = conditions(&given::Given { method, values: &values })?;
    let names: Vec<String> = (0..costs.len()).map(|group| group.to_string()).collect();
    if greedy.prices.is_null() {
        let rules = (!told.is_empty()).then(|| Rules::new(&names, costs, &told));
        return Ok(rules.transpose()?);
    }
    // SAFETY: as above.
    let (prices, parts, ends) = unsafe {
        let ends = numbers(greedy.ends, costs.len());
        let count = ends.last().copied().unwrap_or_default();
        (numbers(greedy.prices, greedy.n_prices), numbers(greedy.parts, count), ends)
    };
    let starts = [0].iter().chain(ends);
    let parts = starts.zip(ends).map(|(&start, &end)| parts[start..end].to_vec());
    Ok(Some(Rules::of_parts(&names, prices.to_vec(), parts.collect(), &told)?))
}

/// Select groups one by one, each the best for its cost; `on_turn` is called after every step. Five
/// numbers for each step are written to `steps`: the group, its score, its gain, what is explained,
/// and the number of the choice; to `ended` the number of steps and that of the reason. Null comes
/// back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `state` comes from here and lives; `on_need` as in `dbselect_linear_add`; the pointers of `given`
/// are to as many numbers as its fields say; `steps` has room for as many steps as there are groups,
/// and `ended` for 2 numbers; `on_turn` keeps the promise of `turns::calling`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_greedy(
    state: *const Selection,
    on_need: Option<OnNeed>,
    given: *const Greedy,
    on_turn: OnTurn,
    steps: *mut f64,
    ended: *mut usize,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (state, given, mut turn) = unsafe { (&*state, *given, calling(on_turn)) };
        let Setting { problem, starts, groups, .. } = &*state.setting;
        // SAFETY: as above.
        let (name, costs, always) = unsafe {
            let costs = numbers(given.costs, *groups);
            (CStr::from_ptr(given.rule), costs, numbers(given.always, given.n_always))
        };
        // SAFETY: as above.
        let rules = unsafe { rules(&given, costs)? };
        let prices = Prices::new(costs, rules.as_ref());
        let some = |limit: f64| (!limit.is_nan()).then_some(limit);
        let limits = Limits {
            budget: some(given.budget),
            max_groups: (given.max_groups != usize::MAX).then_some(given.max_groups),
            first_cost: some(given.first_cost),
            always,
        };
        let mut criterion = Criterion::default();
        let rule = Rule::of(&Value::Text(name.to_string_lossy().into_owned()))?;
        criterion.set_up(rule, problem, starts);
        let mut count = 0;
        let stop = state.with_rows(on_need, |own, reading| {
            let mut record = |step: Step, _: &mut State| {
                let choice = step.choice as usize as f64;
                let numbers = [step.group as f64, step.score, step.gain, step.explained, choice];
                // SAFETY: see the caller's promise: a group is taken once.
                unsafe { slice::from_raw_parts_mut(steps.add(5 * count), 5) }
                    .copy_from_slice(&numbers);
                count += 1;
                if reading.has_failed() || !turn(&step) { Err(Interrupted) } else { Ok(()) }
            };
            greedy_search(own, prices, &mut criterion, limits, &mut Vec::new(), &mut record)
        })?;
        let stop = stop.unwrap_or(Stop::Interrupted) as usize;
        // SAFETY: see the caller's promise.
        unsafe { slice::from_raw_parts_mut(ended, 2) }.copy_from_slice(&[count, stop]);
        Ok(())
    })
}

/// Write for each group the price up to which it is bought by the prefixes of an order, as
/// `prices_at_worth`: of `given` that is `always`. A unit of the error is worth `worth` if the
/// target's deviation `spread` is not NaN, else the whole variance.
/// Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `state` comes from here and lives; `on_need` as in `dbselect_linear_add`; the pointers of `given`
/// are to as many numbers as its fields say; `bought` has room for a double for each group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_prices(
    state: *const Selection,
    on_need: Option<OnNeed>,
    given: *const Greedy,
    worth: f64,
    spread: f64,
    bought: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (state, given) = unsafe { (&*state, *given) };
        // SAFETY: as above.
        let (costs, order) = unsafe {
            (numbers(given.costs, state.setting.groups), numbers(given.always, given.n_always))
        };
        // SAFETY: as above.
        let rules = unsafe { rules(&given, costs)? };
        let prices = Prices::new(costs, rules.as_ref());
        let per = if spread.is_nan() { Per::Explained } else { Per::Rmse };
        let found = state.with_rows(on_need, |own, _| {
            prices_at_worth(own, prices, order, 0, per.value(worth, spread))
        })?;
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(bought, found.len()) }.copy_from_slice(&found);
        Ok(())
    })
}
