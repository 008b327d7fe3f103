//! The sums of a pass over a table so far, as bytes from which another process goes on.
//!
//! A record is the end of a pass: its means are rounded, and which indicators it has was
//! decided by its own rows. The bytes hold the sums themselves, so that a pass cut into
//! parts ends as the pass over all rows does.
//!
//! | part | bytes |
//! |---|---|
//! | `dbselect` | 8 |
//! | version of this layout | 8 |
//! | hash of the plan, which says what the sums are of | 8 |
//! | length of a note of the host's, and the note, filled up with zeros | 8 and more |
//! | the sums, in words of 8 bytes, little-endian | 8 each |
//! | hash of all words before | 8 |

/// What the bytes begin with.
const MAGIC: [u8; WORD] = *b"dbselect";
/// Raised when anything below is laid out in another way.
const VERSION: u64 = 1;
/// Bytes of a word.
const WORD: usize = 8;
/// Words that stand before the note.
const HEAD: usize = 4;
/// An odd number without a pattern: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// What can be written as words and read again.
pub(crate) trait State: Sized {
    /// Append the words.
    fn write(&self, out: &mut Vec<u8>);
    /// Take them again.
    fn read(from: &mut Words) -> Result<Self, String>;
}

/// Let the state of a structure be that of some fields; the others are as in another one.
macro_rules! state {
    ($name:ident { $($field:ident),+ } $(.. $rest:expr)?) => {
        impl crate::kernel::state::State for $name {
            fn write(&self, out: &mut Vec<u8>) {
                $(crate::kernel::state::State::write(&self.$field, out);)+
            }

            fn read(from: &mut crate::kernel::state::Words) -> Result<Self, String> {
                $(let $field = crate::kernel::state::State::read(from)?;)+
                Ok($name { $($field,)+ $(..$rest)? })
            }
        }
    };
}
pub(crate) use state;

/// Words that are still to be read.
pub(crate) struct Words<'b>(&'b [[u8; WORD]]);

impl Words<'_> {
    fn next(&mut self) -> Result<u64, String> {
        let (first, rest) = self.0.split_first().ok_or_else(torn)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*first))
    }
}

impl State for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn read(from: &mut Words) -> Result<u64, String> {
        from.next()
    }
}

impl State for usize {
    fn write(&self, out: &mut Vec<u8>) {
        (*self as u64).write(out);
    }

    fn read(from: &mut Words) -> Result<usize, String> {
        usize::try_from(from.next()?).map_err(|_| torn())
    }
}

impl State for bool {
    fn write(&self, out: &mut Vec<u8>) {
        u64::from(*self).write(out);
    }

    fn read(from: &mut Words) -> Result<bool, String> {
        Ok(from.next()? != 0)
    }
}

impl State for f64 {
    fn write(&self, out: &mut Vec<u8>) {
        self.to_bits().write(out);
    }

    fn read(from: &mut Words) -> Result<f64, String> {
        from.next().map(f64::from_bits)
    }
}

impl<T: State> State for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.len().write(out);
        self.iter().for_each(|one| one.write(out));
    }

    fn read(from: &mut Words) -> Result<Vec<T>, String> {
        let length = usize::read(from)?;
        // Nothing takes less than a word: a length that is none asks for no memory.
        if length > from.0.len() {
            return Err(torn());
        }
        (0..length).map(|_| T::read(from)).collect()
    }
}

/// The hash of some texts, in their order.
pub(crate) fn hash_of_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> u64 {
    let mut bytes = Vec::new();
    for text in texts {
        text.len().write(&mut bytes);
        bytes.extend_from_slice(text.as_bytes());
        fill(&mut bytes);
    }
    hash(bytes.as_chunks().0)
}

/// Seal a state, with the hash of its plan and a note.
pub(crate) fn seal(state: &impl State, plan: u64, note: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    VERSION.write(&mut out);
    plan.write(&mut out);
    note.len().write(&mut out);
    out.extend_from_slice(note);
    fill(&mut out);
    state.write(&mut out);
    hash(out.as_chunks().0).write(&mut out);
    out
}

/// Open what `seal` made of a state of the same plan.
pub(crate) fn open<S: State>(bytes: &[u8], plan: u64) -> Result<S, String> {
    let (_, mut words) = parts(bytes, plan)?;
    let state = S::read(&mut words)?;
    if words.0.is_empty() { Ok(state) } else { Err(torn()) }
}

/// The note that `seal` was given.
pub(crate) fn note(bytes: &[u8], plan: u64) -> Result<&[u8], String> {
    parts(bytes, plan).map(|(note, _)| note)
}

/// The note and the words of the state, once nothing is wrong with the bytes.
fn parts(bytes: &[u8], plan: u64) -> Result<(&[u8], Words<'_>), String> {
    let (words, rest) = bytes.as_chunks();
    let [head @ .., last] = words else { return Err(torn()) };
    if words[0] != MAGIC {
        return Err("part holds other bytes than plan.partial makes".to_string());
    }
    if words.len() <= HEAD || !rest.is_empty() {
        return Err(torn());
    }
    let word = |at: usize| u64::from_le_bytes(words[at]);
    // The version comes first: other versions may hash in another way.
    if word(1) != VERSION {
        return Err(format!(
            "part has version {}, and this dbselect reads version {VERSION}; all processes need \
             the same dbselect",
            word(1)
        ));
    }
    if hash(head) != u64::from_le_bytes(*last) {
        return Err(torn());
    }
    if word(2) != plan {
        return Err("part is of another plan; all parts must come from one plan".to_string());
    }
    let length = usize::try_from(word(3)).map_err(|_| torn())?;
    let end = length.div_ceil(WORD).saturating_add(HEAD);
    let note = &bytes[HEAD * WORD..];
    let (Some(note), Some(state)) = (note.get(..length), head.get(end..)) else {
        return Err(torn());
    };
    Ok((note, Words(state)))
}

/// Append zeros up to a whole word.
fn fill(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(WORD), 0);
}

/// A hash that another value of any one word changes: each step is one to one.
fn hash(words: &[[u8; WORD]]) -> u64 {
    words.iter().fold(words.len() as u64, |hash, word| {
        (hash ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR).rotate_left(29)
    })
}

/// The error for bytes that hold no state.
pub(crate) fn torn() -> String {
    "part is damaged: its bytes were cut or altered on the way".to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Sample {
        counts: Vec<u64>,
        means: Vec<f64>,
        is_known: bool,
    }

    state!(Sample { counts, means, is_known });

    fn sample() -> Sample {
        Sample {
            counts: vec![1, u64::MAX],
            means: vec![-0.0, 1e-300, f64::INFINITY],
            is_known: true,
        }
    }

    fn opened(bytes: &[u8]) -> Result<Sample, String> {
        open(bytes, 7)
    }

    #[test]
    fn what_is_sealed_opens_with_its_note() {
        for note in [&b""[..], b"k", b"12345678", b"123456789"] {
            let bytes = seal(&sample(), 7, note);
            assert_eq!(opened(&bytes).unwrap(), sample());
            assert_eq!(super::note(&bytes, 7).unwrap(), note);
        }
    }

    #[test]
    fn every_altered_bit_and_every_cut_is_found() {
        let bytes = seal(&sample(), 7, b"note");
        for at in 0..8 * bytes.len() {
            let mut altered = bytes.clone();
            altered[at / 8] ^= 1 << (at % 8);
            assert!(opened(&altered).unwrap_err().starts_with("part "), "bit {at}");
        }
        for length in 0..bytes.len() {
            assert!(opened(&bytes[..length]).unwrap_err().starts_with("part "), "{length} bytes");
        }
        let longer = [&bytes[..], &[0; 8]].concat();
        assert!(opened(&longer).unwrap_err().contains("damaged"));
    }

    #[test]
    fn another_version_and_another_plan_are_named() {
        let mut bytes = seal(&sample(), 7, b"");
        assert!(open::<Sample>(&bytes, 8).unwrap_err().contains("another plan"));
        bytes[WORD] = 9;
        assert!(opened(&bytes).unwrap_err().contains("version 9"));
        assert!(
            opened(b"PAR1.....................................").unwrap_err().contains("other")
        );
    }

    #[test]
    fn texts_that_are_cut_elsewhere_have_another_hash() {
        assert_ne!(hash_of_texts(["ab", "c"]), hash_of_texts(["a", "bc"]));
        assert_ne!(hash_of_texts(["ab"]), hash_of_texts(["ab\0"]));
        assert_ne!(hash_of_texts(["a", ""]), hash_of_texts(["a"]));
    }
}
