//! How many bytes the library holds.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};

// Millions of small groups take half the time of the system's; WebAssembly has none but that, and
// the tools that watch memory, under `--cfg system_allocator`, know no other.
#[cfg(not(any(miri, system_allocator, target_family = "wasm")))]
use mimalloc::MiMalloc as Inner;
#[cfg(any(miri, system_allocator, target_family = "wasm"))]
use std::alloc::System as Inner;

/// Bytes that a thread may count by itself.
const STEP: i64 = 1 << 16;
/// What pieces of memory are multiples of.
const MULTIPLE: usize = 16;

static HELD: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// What this thread has not told the others yet.
    static OWN: Cell<i64> = const { Cell::new(0) };
}

/// The allocator, with its bytes counted.
struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: every call goes to an allocator as it came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(taken(layout.size()));
        // SAFETY: see the caller's promise.
        again(unsafe { Inner.alloc(layout) }, || unsafe { Inner.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(taken(layout.size()));
        // SAFETY: see the caller's promise.
        again(unsafe { Inner.alloc_zeroed(layout) }, || unsafe { Inner.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-taken(layout.size()));
        // SAFETY: see the caller's promise.
        unsafe { Inner.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(taken(size) - taken(layout.size()));
        // SAFETY: see the caller's promise; a piece that cannot grow stays as it is.
        let grown = || unsafe { Inner.realloc(pointer, layout, size) };
        again(grown(), grown)
    }
}

/// Address space that is kept for the time when there is no other, where `ulimit -v` ends it.
static SPARE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
const SPARE_BYTES: usize = 1 << 26;
/// Whether that time has come.
static RAN_OUT: AtomicBool = AtomicBool::new(false);

fn spare_layout() -> Layout {
    Layout::new::<[u8; SPARE_BYTES]>()
}

/// What was allocated, or, where nothing was, what is once the spare memory is given up.
#[inline]
fn again(found: *mut u8, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    if !found.is_null() { found } else { in_need(allocate) }
}

#[cold]
fn in_need(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let spare = SPARE.swap(null_mut(), Ordering::AcqRel);
    if spare.is_null() {
        return allocate();
    }
    RAN_OUT.store(true, Ordering::Release);
    // SAFETY: it came of this allocator and layout, and no one else has it.
    unsafe { Inner.dealloc(spare, spare_layout()) };
    allocate()
}

/// What work returned, or that memory ran out meanwhile, which only the spare has hidden. Other
/// work may go on once what it held is freed.
pub fn in_room<T>(found: Result<T, String>) -> Result<T, String> {
    if !RAN_OUT.load(Ordering::Acquire) {
        return found;
    }
    drop(found);
    keep_spare();
    RAN_OUT.store(SPARE.load(Ordering::Acquire).is_null(), Ordering::Release);
    Err("the address space of the process has ended (ulimit -v): sum fewer groups or columns at a \
         time, give memory_limit, or raise the limit"
        .to_string())
}

fn keep_spare() {
    // SAFETY: the layout is not empty; the memory is never read.
    let spare = unsafe { Inner.alloc(spare_layout()) };
    let before = SPARE.swap(spare, Ordering::AcqRel);
    if !before.is_null() {
        // SAFETY: as in `in_need`.
        unsafe { Inner.dealloc(before, spare_layout()) };
    }
}

/// Allocators take address space by the gigabyte, of which `ulimit -v` may leave two.
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    not(any(miri, system_allocator))
))]
mod begun {
    use std::ffi::{c_int, c_long};

    /// `mi_option_arena_reserve`, in KiB: 32 MiB instead of 1 GiB.
    const ARENA: (c_int, c_long) = (23, 1 << 15);
    /// `RLIMIT_AS`.
    const ADDRESSES: c_int = 9;

    unsafe extern "C" {
        fn mi_option_set_default(option: c_int, value: c_long);
        fn getrlimit(resource: c_int, limits: *mut [u64; 2]) -> c_int;
    }

    /// When the library is loaded, before it allocates anything.
    extern "C" fn begin() {
        let mut limits = [u64::MAX; 2];
        // SAFETY: plain C functions with values that they know, and memory of two words.
        unsafe {
            mi_option_set_default(ARENA.0, ARENA.1);
            getrlimit(ADDRESSES, &mut limits);
        }
        if limits[0] != u64::MAX {
            crate::memory::keep_spare();
        }
    }

    #[used]
    // SAFETY: the section holds functions without arguments, which run when the library is loaded.
    #[unsafe(link_section = ".init_array")]
    static BEGIN: extern "C" fn() = begin;
}

/// About what a piece of some bytes takes.
fn taken(size: usize) -> i64 {
    size.next_multiple_of(MULTIPLE) as i64
}

fn count(bytes: i64) {
    // A thread that ends counts no more.
    let _ = OWN.try_with(|own| {
        let known = own.get() + bytes;
        let is_told = known.abs() >= STEP;
        if is_told {
            HELD.fetch_add(known, Ordering::Relaxed);
        }
        own.set(if is_told { 0 } else { known });
    });
}

/// Bytes that all threads hold, to some thousands a thread.
pub fn held() -> u64 {
    HELD.load(Ordering::Relaxed).max(0) as u64
}

/// Bytes of the machine's memory, or of that of its container where that is less, where Linux
/// says them.
pub fn of_machine() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let own = total(&read("/proc/meminfo")?)?;
    Some(read("/proc/self/cgroup").map_or(own, |told| own.min(of_groups(&told, read))))
}

/// The least limit of the control groups of a process and of those above them.
fn of_groups(told: &str, read: impl Fn(&str) -> Option<String>) -> u64 {
    let mut least = u64::MAX;
    for line in told.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            some if some.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // Inside a container the path may be that of the machine, and the mount its own.
        for path in Path::new(path.trim_start_matches('/')).ancestors() {
            let limit = read(&format!("{root}/{}/{file}", path.display()));
            let limit = limit.and_then(|text| text.trim().parse().ok());
            least = limit.unwrap_or(u64::MAX).min(least);
        }
    }
    least
}

fn total(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The bytes that a text such as `4GB` or `512 MiB` means.
pub fn bytes_of(text: &str) -> Result<u64, String> {
    let refused = || format!("limit is '{text}'; it must be bytes, as '4GB' or '512MiB'");
    let letters = text.trim().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 =
        text.trim().strip_suffix(letters).unwrap_or_default().parse().map_err(|_| refused())?;
    let unit = letters.trim().to_ascii_uppercase();
    let unit = unit.strip_suffix("BYTES").or(unit.strip_suffix('B')).unwrap_or(&unit);
    let (power, base) = match unit.strip_suffix('I') {
        Some(power) => (power, 1024.0_f64),
        None => (unit, 1000.0),
    };
    let power = ["", "K", "M", "G", "T", "P"].iter().position(|known| *known == power.trim());
    power.map(|power| (number * base.powi(power as i32)) as u64).ok_or_else(refused)
}

/// Bytes in words.
pub fn told(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.0} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted() {
        // Tests beside this one hold some megabytes now and then.
        let before = held();
        let values = vec![1_u8; 1 << 28];
        assert!(held() > before + (1 << 27) && values[7] == 1);
        drop(values);
        assert!(held() < before + (1 << 27));
    }

    #[test]
    fn the_memory_of_the_machine_is_read() {
        let told = "MemTotal:       24589364 kB\nMemFree:         1 kB\n";
        assert_eq!((total(told), total("MemFree: 1 kB")), (Some(24_589_364 << 10), None));
    }

    #[test]
    fn the_memory_of_a_container_is_that_of_its_least_group() {
        let files = |path: &str| {
            let text = match path {
                "/sys/fs/cgroup/a/b/memory.max" => "max\n",
                "/sys/fs/cgroup/a/memory.max" => "2000\n",
                "/sys/fs/cgroup/memory//memory.limit_in_bytes" => "700\n",
                _ => return None,
            };
            Some(text.to_string())
        };
        assert_eq!(of_groups("0::/a/b\n", files), 2000);
        assert_eq!(of_groups("0::/elsewhere\n", files), u64::MAX);
        assert_eq!(of_groups("4:cpu:/\n7:hugetlb,memory:/docker/1f\n", files), 700);
    }

    #[test]
    fn memory_that_runs_out_is_an_error_after_the_work() {
        keep_spare();
        let piece = spare_layout();
        let failed = std::cell::Cell::new(false);
        // The second call is after the spare was given up.
        let allocate = || match failed.replace(true) {
            // SAFETY: the layout is not empty.
            true => unsafe { Inner.alloc(piece) },
            false => null_mut(),
        };
        let found = again(allocate(), allocate);
        assert!(!found.is_null());
        // SAFETY: it came of this allocator and layout.
        unsafe { Inner.dealloc(found, piece) };
        assert!(in_room(Ok(())).is_err_and(|told| told.contains("ulimit -v")));
        assert_eq!(in_room(Ok(7)), Ok(7));
    }

    #[test]
    fn limits_are_written_as_duckdb_does() {
        let known = [("4GB", 4_000_000_000), ("512 MiB", 1 << 29), ("1.5kb", 1500), ("80", 80)];
        assert!(known.iter().all(|(text, bytes)| bytes_of(text) == Ok(*bytes)));
        assert!(["", "GB", "-1GB", "4 apples", "4 XB"].iter().all(|text| bytes_of(text).is_err()));
        assert_eq!((told(2_500_000_000), told(1 << 20)), ("2.5 GB".into(), "1 MB".into()));
    }
}
