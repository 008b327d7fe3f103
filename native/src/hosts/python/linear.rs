//! Entry points for the state of a linear problem, whose correlations are NumPy's or are read by
//! Python as they are needed.

use std::ffi::{CStr, c_char};
use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::guard;
use super::turns::{OnTurn, calling};
use crate::linear::bounds::upper_bounds;
use crate::linear::prefixes::{degrees, prefix_coefficients, response_gains};
use crate::linear::problem::{Linear, Rows, first_of_same};
use crate::linear::state::{Buffers, State};
use crate::methods::value::Value;
use crate::search::steps::{Interrupted, Step, Stop};
use crate::search::walks::criteria::Criterion;
use crate::search::walks::criteria::Rule;
use crate::search::walks::greedy::{Limits, Prices, greedy_search};

/// Why a call ends that reads rows which Python does not bring.
const UNREAD: &str = "rows of the Gram were not read";

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
    /// D times D correlations, or null where `on_need` brings them.
    correlations: *const f64,
    on_need: Option<OnNeed>,
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

/// Where correlations are.
#[derive(Debug)]
enum Source {
    /// In memory, row by row.
    Memory(&'static [f64]),
    /// In Python, but for the blocks of the groups.
    Read(Reading),
}

#[derive(Debug)]
struct Reading {
    on_need: OnNeed,
    blocks: Vec<f64>,
    /// Where the block of the group begins that begins with a column.
    starts: Vec<usize>,
    /// Rows that are read already, and of which columns.
    ahead: Mutex<(Vec<usize>, Vec<f64>)>,
    /// Whether rows that were needed were not read.
    has_failed: AtomicBool,
}

impl Reading {
    /// Have Python write the rows of some columns.
    fn bring(&self, columns: &[usize], rows: &mut [f64]) -> bool {
        let (at, count) = (columns.as_ptr(), columns.len());
        let mut needed = Needed { columns: at, count, rows: rows.as_mut_ptr(), is_read: 0 };
        // SAFETY: the maker of the problem keeps the function for as long as the problem lives, and
        // it writes only the rows, for which there is room, and the answer. No exception passes
        // through: ctypes lets none out.
        unsafe { (self.on_need)(&mut needed) };
        needed.is_read != 0
    }
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

impl Rows for Gathered {
    fn read(&self, columns: &[usize], rows: &mut [f64]) {
        let numbers: Vec<usize> = columns.iter().map(|&j| self.column[j]).collect();
        let into = rows.chunks_exact_mut(self.column.len().max(1));
        match &self.source {
            Source::Memory(all) => {
                for (&j, into) in numbers.iter().zip(into) {
                    self.gather(&all[j * self.width..][..self.width], into);
                }
            }
            Source::Read(reading) => {
                let mut found = vec![0.0; numbers.len() * self.width];
                let ahead = reading.ahead.lock();
                let known = ahead.as_ref().map_or((&[][..], &[][..]), |a| (&a.0[..], &a.1[..]));
                let places: Option<Vec<usize>> =
                    numbers.iter().map(|j| known.0.iter().position(|other| other == j)).collect();
                let is_read = match places {
                    Some(places) => {
                        for (at, into) in places.iter().zip(found.chunks_exact_mut(self.width)) {
                            into.copy_from_slice(&known.1[at * self.width..][..self.width]);
                        }
                        true
                    }
                    None => reading.bring(&numbers, &mut found),
                };
                if !is_read {
                    reading.has_failed.store(true, Ordering::Relaxed);
                    found.fill(0.0);
                }
                for (row, into) in found.chunks_exact(self.width.max(1)).zip(into) {
                    self.gather(row, into);
                }
            }
        }
    }

    fn append_block(&self, columns: Range<usize>, blocks: &mut Vec<f64>) {
        let size = columns.len();
        match &self.source {
            _ if size == 1 => blocks.push(self.variances[self.column[columns.start]]),
            Source::Memory(all) => {
                let own = &self.column[columns];
                for &i in own {
                    blocks.extend(own.iter().map(|&j| all[i * self.width + j]));
                }
            }
            Source::Read(reading) if size > 0 => {
                let start = reading.starts[columns.start];
                blocks.extend_from_slice(&reading.blocks[start..start + size * size]);
            }
            Source::Read(_) => (),
        }
    }

    fn variance(&self, column: usize) -> f64 {
        self.variances[self.column[column]]
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
}

impl Setting {
    /// # Safety
    /// The pointers are to as many numbers as their fields say. Correlations and `on_need` live as
    /// long as the result, and nobody changes the former.
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
        let source = match given.on_need {
            _ if !given.correlations.is_null() => {
                // SAFETY: see the caller's promise.
                Source::Memory(unsafe { numbers(given.correlations, width * width) })
            }
            Some(on_need) => {
                let mut places = vec![0; column.len() + 1];
                let mut end = 0;
                for bounds in starts[..=groups].windows(2) {
                    places[bounds[0]] = end;
                    end += (bounds[1] - bounds[0]).pow(2);
                }
                // SAFETY: see the caller's promise.
                let blocks = unsafe { numbers(given.blocks, end) }.to_vec();
                let (ahead, has_failed) = (Mutex::default(), AtomicBool::new(false));
                Source::Read(Reading { on_need, blocks, starts: places, ahead, has_failed })
            }
            None => return Err("a linear problem has no correlations".to_string()),
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
        problem.rows = Some(gathered.clone());
        Ok(Setting { problem, gathered, starts, groups, first })
    }

    fn reading(&self) -> Option<&Reading> {
        match &self.gathered.source {
            Source::Memory(_) => None,
            Source::Read(reading) => Some(reading),
        }
    }
}

impl Selection {
    fn locked(&self) -> Result<MutexGuard<'_, Buffers>, String> {
        self.buffers.lock().map_err(|_| POISONED.to_string())
    }

    /// Do something that reads no rows.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, String> {
        let mut kept = self.locked()?;
        let Setting { problem, starts, .. } = &*self.setting;
        let mut state = State::resumed(problem, starts, std::mem::take(&mut kept));
        let found = work(&mut state);
        *kept = state.into_buffers();
        Ok(found)
    }

    /// Do something that may read rows again, and nothing if these cannot be read.
    fn with_rows<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, String> {
        let Some(reading) = self.setting.reading() else {
            return self.with(work);
        };
        let before = self.locked()?.clone();
        let found = self.with(work)?;
        if reading.has_failed.swap(false, Ordering::Relaxed) {
            *self.locked()? = before;
            return Err(UNREAD.to_string());
        }
        Ok(found)
    }

    /// Select groups, whose rows are read before anything changes.
    fn add_all(&self, groups: &[usize]) -> Result<f64, String> {
        let Setting { starts, gathered, groups: count, .. } = &*self.setting;
        let is_waiting = |state: &mut State| {
            let is_new = |(at, group): (usize, &usize)| {
                *group < *count && state.waiting()[*group] && !groups[..at].contains(group)
            };
            groups.iter().enumerate().all(is_new)
        };
        if !self.with(is_waiting)? {
            return Err(format!("groups {groups:?} are not all there to be selected"));
        }
        let Some(reading) = self.setting.reading() else {
            return self.with(|state| state.add_all(groups));
        };
        let slots = groups.iter().flat_map(|&group| starts[group]..starts[group + 1]);
        let mut columns: Vec<usize> = slots.map(|at| gathered.column[at]).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut rows = vec![0.0; columns.len() * gathered.width];
        if !columns.is_empty() && !reading.bring(&columns, &mut rows) {
            return Err(UNREAD.to_string());
        }
        let keep = |ahead| {
            reading.ahead.lock().map(|mut kept| *kept = ahead).map_err(|_| POISONED.to_string())
        };
        keep((columns, rows))?;
        let gain = self.with(|state| state.add_all(groups));
        keep(Default::default())?;
        gain
    }

    /// Write what a state has: see `dbselect_linear_read`.
    fn read(&self, what: u8, into: *mut f64) -> Result<(), String> {
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
            1 => self.with_rows(|state| state.losses(&mut all)).map(|()| of_groups(all)),
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
        let buffers = Mutex::new(empty.into_buffers());
        let made = Selection { setting: Arc::new(setting), buffers };
        // SAFETY: see the caller's promise.
        unsafe { state.write(Box::into_raw(Box::new(made))) };
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
        let buffers = Mutex::new(state.locked()?.clone());
        let made = Selection { setting: state.setting.clone(), buffers };
        // SAFETY: see the caller's promise.
        unsafe { copy.write(Box::into_raw(Box::new(made))) };
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
/// `state` comes from here and lives; `groups` holds `count` numbers; `gain` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_add(
    state: *const Selection,
    groups: *const usize,
    count: usize,
    gain: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let (state, groups) = unsafe { (&*state, numbers(groups, count)) };
        let found = state.add_all(groups)?;
        // SAFETY: see the caller's promise.
        unsafe { gain.write(found) };
        Ok(())
    })
}

/// Give a group back and write its loss. Null comes back, or an error text for
/// `dbselect_text_free`; then nothing has changed.
///
/// # Safety
/// `state` comes from here and lives; `loss` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_remove(
    state: *const Selection,
    group: usize,
    loss: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let state = unsafe { &*state };
        let found = state.with_rows(|state| state.remove(group))?;
        // SAFETY: see the caller's promise.
        unsafe { loss.write(found) };
        Ok(())
    })
}

/// Write which groups and columns are selected: their number n of groups, r of rows of U and a of
/// aliased columns, then the groups, where the rows of each end, the columns of the rows and the
/// aliased columns. Null comes back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `state` comes from here and lives; `into` has room for 3 numbers, two for each group and one for
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
            let ends = held.iter().map(|held| held.rows().end);
            let columns = own.support().iter().chain(&aliased).map(column);
            let all = counts.into_iter().chain(groups).chain(ends).chain(columns);
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
/// `state` comes from here and lives; `into` has room for as many doubles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_read(
    state: *const Selection,
    what: u8,
    into: *mut f64,
) -> *mut c_char {
    // SAFETY: see the caller's promise.
    guard(|| unsafe { &*state }.read(what, into))
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
/// `state` comes from here and lives; `order` holds `count` numbers of groups, `costs` a double for
/// each group; `budgets` and `bounds` have `limits` doubles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_bounds(
    state: *const Selection,
    order: *const usize,
    count: usize,
    costs: *const f64,
    budgets: *const f64,
    limits: usize,
    bounds: *mut f64,
) -> *mut c_char {
    guard(|| {
        // SAFETY: see the caller's promise.
        let Setting { problem, starts, groups, .. } = unsafe { &*(*state).setting };
        // SAFETY: as above.
        let (order, costs, budgets) =
            unsafe { (numbers(order, count), numbers(costs, *groups), numbers(budgets, limits)) };
        let found = upper_bounds(problem, starts, costs, order, budgets);
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
    /// Groups to take first.
    always: *const usize,
    n_always: usize,
    /// Limits; NaN and the largest number mean none.
    budget: f64,
    first_cost: f64,
    max_groups: usize,
}

/// Select groups one by one, each the best for its cost; `on_turn` is called after every step. Five
/// numbers for each step are written to `steps`: the group, its score, its gain, what is explained,
/// and the number of the choice; to `ended` the number of steps and that of the reason. Null comes
/// back, or an error text for `dbselect_text_free`.
///
/// # Safety
/// `state` comes from here and lives; nothing uses it before this call returns; the pointers of
/// `given` are to as many numbers as its fields say; `steps` has room for as many steps as there are
/// groups, and `ended` for 2 numbers; `on_turn` keeps the promise of `turns::calling`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_linear_greedy(
    state: *const Selection,
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
        let prices = if given.prices.is_null() {
            Prices::of(costs)
        } else {
            // SAFETY: as above.
            let (prices, parts, ends) = unsafe {
                let ends = numbers(given.ends, *groups);
                let count = ends.last().copied().unwrap_or_default();
                (numbers(given.prices, given.n_prices), numbers(given.parts, count), ends)
            };
            Prices::of_parts(costs, prices.to_vec(), parts.to_vec(), ends.to_vec())
        };
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
        let stop = state.with_rows(|own| {
            let mut record = |step: Step, _: &mut State| {
                let choice = step.choice as usize as f64;
                let numbers = [step.group as f64, step.score, step.gain, step.explained, choice];
                // SAFETY: see the caller's promise: a group is taken once.
                unsafe { slice::from_raw_parts_mut(steps.add(5 * count), 5) }
                    .copy_from_slice(&numbers);
                count += 1;
                if turn(&step) { Ok(()) } else { Err(Interrupted) }
            };
            greedy_search(own, prices, &mut criterion, limits, &mut Vec::new(), &mut record)
        })?;
        let stop = stop.unwrap_or(Stop::Interrupted) as usize;
        // SAFETY: see the caller's promise.
        unsafe { slice::from_raw_parts_mut(ended, 2) }.copy_from_slice(&[count, stop]);
        Ok(())
    })
}
