//! Random cases for the entry points of the library, against exact sums: `make fuzz`.
//!
//! `fuzz SECONDS [FIRST]` runs cases of all families, from a first seed on, and prints how many
//! and what was found; `fuzz FAMILY SEED` runs one again. A finding is a panic, an answer that
//! differs from the exact one, or a case that takes seconds. A seed means a case for as long as
//! its generator draws alike: what is found is mended with a test of its own, and its seed is
//! kept in `corpus.txt`, which `cargo test` runs.

mod anything;
mod bytes;
mod draw;
mod host;
mod records;
mod sequences;
mod streams;
mod tables;

use std::panic::{catch_unwind, set_hook};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use draw::Draw;

/// A case of a seed: what is wrong with the library's answer.
type Case = fn(&mut Draw) -> Result<(), String>;

/// What is tried, and the share of the time that each gets is the same.
const FAMILIES: [(&str, Case); 6] = [
    ("tables", tables::case),
    ("anything", anything::case),
    ("streams", streams::case),
    ("records", records::case),
    ("sequences", sequences::case),
    ("bytes", bytes::case),
];
/// Cases of a family that run before the next has its turn.
const TURN: u64 = 100;
/// A case is small: one that takes longer has a loop without end, or nearly.
const LONGEST: Duration = Duration::from_secs(3);
/// Findings of a family after which it is left out: more tell nothing new.
const MOST_FINDINGS: u64 = 5;

/// Where the last panic was, and what it said.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// What became of a family.
#[derive(Default)]
struct Tally {
    cases: u64,
    findings: u64,
    time: Duration,
}

fn main() -> ExitCode {
    set_hook(Box::new(|info| {
        if let Ok(mut panic) = PANIC.lock() {
            *panic = info.to_string();
        }
    }));
    let given: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| given.get(at).and_then(|text| text.parse().ok());
    let family = given.first().and_then(|name| FAMILIES.iter().find(|one| one.0 == *name));
    match (family, number(0), number(1)) {
        (Some((_, case)), _, Some(seed)) => match run(*case, seed) {
            Ok(()) => ExitCode::SUCCESS,
            Err(wrong) => {
                println!("{wrong}");
                ExitCode::FAILURE
            }
        },
        (None, Some(seconds), first) => all(Duration::from_secs(seconds), first.unwrap_or(0)),
        _ => {
            let names: Vec<&str> = FAMILIES.iter().map(|one| one.0).collect();
            eprintln!("fuzz SECONDS [FIRST], or fuzz FAMILY SEED; families are {names:?}");
            ExitCode::from(2)
        }
    }
}

/// Run a case; the error says what was found.
fn run(case: Case, seed: u64) -> Result<(), String> {
    let start = Instant::now();
    let found = catch_unwind(|| case(&mut Draw::new(seed)));
    let panic = || PANIC.lock().map(|panic| panic.clone()).unwrap_or_default();
    match found {
        Err(_) => Err(format!("panic: {}", panic())),
        Ok(Err(wrong)) if wrong.contains("internal error") => Err(format!("{wrong}: {}", panic())),
        Ok(Ok(())) if start.elapsed() > LONGEST => Err(format!("took {:?}", start.elapsed())),
        Ok(found) => found,
    }
}

/// Run all families for some time.
fn all(time: Duration, first: u64) -> ExitCode {
    let start = Instant::now();
    let mut tallies: Vec<Tally> = FAMILIES.iter().map(|_| Tally::default()).collect();
    for turn in 0.. {
        if start.elapsed() >= time {
            break;
        }
        for ((name, case), tally) in FAMILIES.iter().zip(&mut tallies) {
            if tally.findings >= MOST_FINDINGS {
                continue;
            }
            let begun = Instant::now();
            for seed in (first + turn * TURN..).take(TURN as usize) {
                tally.cases += 1;
                if let Err(wrong) = run(*case, seed) {
                    tally.findings += 1;
                    println!("finding: {name} {seed}: {wrong}");
                }
            }
            tally.time += begun.elapsed();
        }
    }
    for ((name, _), tally) in FAMILIES.iter().zip(&tallies) {
        let speed = tally.cases as f64 / tally.time.as_secs_f64().max(1e-9);
        let Tally { cases, findings, .. } = tally;
        println!("{name}: {cases} cases, {speed:.0} a second, {findings} findings");
    }
    let cases: u64 = tallies.iter().map(|tally| tally.cases).sum();
    let speed = cases as f64 / start.elapsed().as_secs_f64();
    println!("all, from seed {first}: {cases} cases, {speed:.0} a second");
    if tallies.iter().all(|tally| tally.findings == 0) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases of each family that every run of the tests has.
    const FEW: u64 = 300;

    #[test]
    fn the_first_cases_find_nothing() {
        for (name, case) in FAMILIES {
            for seed in 0..FEW {
                assert_eq!(run(case, seed), Ok(()), "{name} {seed}");
            }
        }
    }

    #[test]
    fn what_was_found_is_found_no_more() {
        for line in include_str!("corpus.txt").lines().filter(|line| !line.starts_with('#')) {
            let (name, rest) = line.split_once(' ').expect("a family and a seed");
            let seed = rest.split_whitespace().next().and_then(|seed| seed.parse().ok());
            let family = FAMILIES.iter().find(|one| one.0 == name).expect("a family");
            assert_eq!(run(family.1, seed.expect("a seed")), Ok(()), "{line}");
        }
    }
}
