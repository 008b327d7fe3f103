//! How many bytes the library holds.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

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
        unsafe { Inner.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(taken(layout.size()));
        // SAFETY: see the caller's promise.
        unsafe { Inner.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-taken(layout.size()));
        // SAFETY: see the caller's promise.
        unsafe { Inner.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(taken(size) - taken(layout.size()));
        // SAFETY: see the caller's promise.
        unsafe { Inner.realloc(pointer, layout, size) }
    }
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

/// Bytes of the machine's memory, where Linux says them.
pub fn of_machine() -> Option<u64> {
    total(&std::fs::read_to_string("/proc/meminfo").ok()?)
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
    fn limits_are_written_as_duckdb_does() {
        let known = [("4GB", 4_000_000_000), ("512 MiB", 1 << 29), ("1.5kb", 1500), ("80", 80)];
        assert!(known.iter().all(|(text, bytes)| bytes_of(text) == Ok(*bytes)));
        assert!(["", "GB", "-1GB", "4 apples", "4 XB"].iter().all(|text| bytes_of(text).is_err()));
        assert_eq!((told(2_500_000_000), told(1 << 20)), ("2.5 GB".into(), "1 MB".into()));
    }
}
