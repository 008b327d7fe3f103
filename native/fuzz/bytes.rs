//! Stored bytes: of a state every altered bit is an error, and a forged one, whose hash was made
//! anew, is an error or a record that holds together.

use arrow_array::Array;
use dbselect_native::record::arrow::read_record;
use dbselect_native::record::terms;

use crate::draw::Draw;
use crate::host::{Reader, no_panic};
use crate::tables::Table;

const WORD: usize = 8;
/// As in `state.rs`: what is forged has the right hash.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const JSON: &str = r#"{"categories":[{"column":"k","levels":["u","v"],"rest":true,"null_policy":"skip"}],
    "bases":[{"column":"x","kind":"spline","knots":[0,1,2,3]}],"dates":{"d":"days"},
    "means":{"x":1.5},"indicators":["y"],"flat":["a.b"]}"#;

/// Draw a table, alter its state and read it again.
pub fn case(draw: &mut Draw) -> Result<(), String> {
    if draw.one_in(4) {
        return json(draw);
    }
    let table = Table::of(draw);
    let reader = Reader::new(&table.asked);
    reader.add(std::slice::from_ref(&table.batch))?;
    let (bytes, keys) = reader.state(b"a note")?;
    let forged = draw.one_in(2);
    let altered = alter(draw, &bytes, forged);
    let other = Reader::new(&table.asked);
    let keys: Vec<i32> = keys.iter().map(|_| draw.below(9) as i32).collect();
    let loaded = no_panic(other.load(&altered, &keys))?;
    if loaded.is_some() && altered != bytes && !forged {
        return Err("a damaged state is taken".to_string());
    }
    if loaded.is_none() {
        return Ok(());
    }
    // What is forged can be any numbers, but nothing that no record holds.
    no_panic(other.add(std::slice::from_ref(&table.batch)))?;
    if let Some((_, records)) = no_panic(other.finish())? {
        (0..records.len()).try_for_each(|row| no_panic(read_record(&records, row)).map(|_| ()))?;
    }
    Ok(())
}

/// Bytes of which some bits, words or stretches are others.
fn alter(draw: &mut Draw, bytes: &[u8], forged: bool) -> Vec<u8> {
    let mut altered = bytes.to_vec();
    // The version and the plan are no secret: what is forged has the right ones.
    let first = if forged { 3 * WORD } else { 0 };
    let at = first + draw.below(altered.len() - first);
    match draw.below(5) {
        0 => altered[at] ^= 1 << draw.below(8),
        1 => altered.truncate(at),
        2 => {
            let word = at / WORD * WORD;
            let value = draw.of(&[0, 1, 2, 3, 7, 1 << 20, u64::MAX, u64::MAX / 8, 1 << 63]);
            altered[word..word + WORD].copy_from_slice(&value.to_le_bytes());
        }
        3 => {
            let word = at / WORD * WORD;
            altered.drain(word..(word + WORD * (draw.below(3) + 1)).min(bytes.len()));
        }
        _ => {
            let word = at / WORD * WORD;
            let number = draw.double().to_le_bytes();
            altered.splice(word..word, number);
        }
    }
    if forged {
        altered.truncate(altered.len() / WORD * WORD);
        seal(&mut altered);
    }
    altered
}

/// Make the last word the hash of those before.
fn seal(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len().saturating_sub(WORD));
    let words: Vec<u64> = bytes
        .chunks_exact(WORD)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let hash = words
        .iter()
        .fold(words.len() as u64, |hash, word| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29));
    bytes.extend_from_slice(&hash.to_le_bytes());
}

/// Terms of which some bytes are others.
fn json(draw: &mut Draw) -> Result<(), String> {
    let mut text = JSON.as_bytes().to_vec();
    for _ in 0..draw.below(4) {
        let at = draw.below(text.len());
        match draw.below(3) {
            0 => text[at] = draw.of(b"0-9.eE\"\\u[]{},:tfn "),
            1 => drop(text.drain(at..(at + draw.below(9)).min(text.len()))),
            _ => text.insert(at, draw.of(b"[{\"\\9")),
        }
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let Some(known) = no_panic(terms::read(Some(&text)))? else { return Ok(()) };
    let json = known.to_json();
    match terms::read(json.as_deref()) {
        Ok(again) if again == known => Ok(()),
        Ok(_) => Err("terms are others once they are written".to_string()),
        Err(error) => Err(error),
    }
}
