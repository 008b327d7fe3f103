//! Which known names are near an unknown one, for errors that help.
//!
//! Source: Ratcliff, Metzener (1988), Pattern Matching: The Gestalt Approach; the measure of
//! Python's `difflib`, so that errors name the same columns in every host.

/// Likeness below which a name is no help.
const CUTOFF: f64 = 0.6;
/// Near names that are shown, and names where none is near.
const NEAR: usize = 3;
const FIRST: usize = 10;

/// Describe an unknown name, with the nearest known ones.
pub fn unknown(kind: &str, name: &str, names: &[String]) -> String {
    let lower = name.to_lowercase();
    if let Some(same) = names.iter().find(|other| other.to_lowercase() == lower) {
        return format!("unknown {kind} '{name}'; there is '{same}', and case counts");
    }
    let mut shown = near(name, names);
    if shown.is_empty() {
        shown = names.iter().take(FIRST).map(String::as_str).collect();
    }
    let more = if shown.len() == FIRST && names.len() > FIRST { ", ..." } else { "" };
    format!("unknown {kind} '{name}'; there is {}{more}", quoted(&shown))
}

/// Describe columns that a table lacks, with near ones of some names.
///
/// `lacking` in `dbselect/record/columns.py` says the same.
pub fn lacking(columns: &[&str], names: &[String]) -> String {
    let shown = &columns[..columns.len().min(FIRST)];
    let more = columns.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if columns.len() == 1 { "column" } else { "columns" };
    let mut likely: Vec<&str> = Vec::new();
    for name in shown.iter().filter_map(|name| near(name, names).first().copied()) {
        if likely.len() < NEAR && !likely.contains(&name) {
            likely.push(name);
        }
    }
    let there = match likely.is_empty() {
        true => String::new(),
        false => format!("; there is {}", quoted(&likely)),
    };
    format!("the rows lack {noun} {}{more}, which the prediction reads{there}", quoted(shown))
}

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    if quoted.is_empty() { "none".to_string() } else { quoted.join(", ") }
}

/// The known names most like a name, best first.
pub fn near<'n>(name: &str, names: &'n [String]) -> Vec<&'n str> {
    alike(name, names, CUTOFF)
}

/// The same that are at least so much like it, 1 being the name itself.
pub fn alike<'n>(name: &str, names: &'n [String], least: f64) -> Vec<&'n str> {
    let word: Vec<char> = name.chars().collect();
    let likeness = |other: &str| {
        let letters: Vec<char> = other.chars().collect();
        2.0 * in_common(&letters, &word) as f64 / (letters.len() + word.len()).max(1) as f64
    };
    let mut found: Vec<(f64, &str)> = names
        .iter()
        .map(|other| (likeness(other), other.as_str()))
        .filter(|(likeness, _)| *likeness >= least)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.cmp(a.1)));
    found.into_iter().take(NEAR).map(|(_, other)| other).collect()
}

/// Letters in the longest common stretch, and in those on both sides of it.
fn in_common(a: &[char], b: &[char]) -> usize {
    let (mut start_a, mut start_b, mut longest) = (0, 0, 0);
    // Lengths of the stretches that end at the letter before, by their end in `b`.
    let mut before = vec![0; b.len() + 1];
    for (i, letter) in a.iter().enumerate() {
        let mut lengths = vec![0; b.len() + 1];
        for (j, _) in b.iter().enumerate().filter(|(_, other)| *other == letter) {
            lengths[j + 1] = before[j] + 1;
            if lengths[j + 1] > longest {
                longest = lengths[j + 1];
                (start_a, start_b) = (i + 1 - longest, j + 1 - longest);
            }
        }
        before = lengths;
    }
    if longest == 0 {
        return 0;
    }
    longest
        + in_common(&a[..start_a], &b[..start_b])
        + in_common(&a[start_a + longest..], &b[start_b + longest..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn the_nearest_names_come_first() {
        // The example in the documentation of Python's `difflib`.
        let words = names(&["ape", "apple", "peach", "puppy"]);
        assert_eq!(near("appel", &words), ["apple", "ape"]);
    }

    #[test]
    fn columns_that_are_lacking_are_named_with_near_ones() {
        let there = names(&["Age", "sex", "distance"]);
        assert_eq!(lacking(&["age"], &there), {
            "the rows lack column 'age', which the prediction reads; there is 'Age'"
        });
        assert_eq!(lacking(&["age", "zzz"], &there), {
            "the rows lack columns 'age', 'zzz', which the prediction reads; there is 'Age'"
        });
        let many: Vec<String> = (0..12).map(|i| format!("x{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(lacking(&many, &there).ends_with("'x9' and 2 more, which the prediction reads"));
    }

    #[test]
    fn without_a_near_name_the_first_ones_are_shown() {
        let many: Vec<String> = (0..12).map(|i| format!("x{i}")).collect();
        assert_eq!(unknown("column", "abc", &many[..2]), {
            "unknown column 'abc'; there is 'x0', 'x1'"
        });
        assert!(unknown("column", "abc", &many).ends_with("'x9', ..."));
        assert_eq!(unknown("group", "g", &[]), "unknown group 'g'; there is none");
    }
}
