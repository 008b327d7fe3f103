//! Folds for cross-validation: which of k folds a row lies in is decided by a key.
//!
//! The values of a key are hashed one after the other by XXH3 (64 bits), the
//! first with the user's seed, the others with the hash so far as seed. Fold
//! `floor(hash * k / 2^64)`. What is hashed depends on the value only, not on
//! the engine, the width of the type or the encoding:
//!
//! | value | bytes, little-endian |
//! |---|---|
//! | number that is a double | that double, 8 bytes; -0.0 as 0.0, one NaN |
//! | other whole number | 16 bytes in two's complement |
//! | other DECIMAL | as the nearest double |
//! | text, blob, UUID as text | as they are |
//! | date, timestamp | nanoseconds since 1970 as a whole number |
//! | NULL | `NULL`, 8 bytes |
//!
//! A STRUCT or ARRAY is a row as a Gram reads it: its leaves in order, their
//! numbers as doubles, NaN as NULL. Stored folds depend on all of this.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::kernel::chunk::Missing;

/// A NaN that no number is hashed as.
const NULL: u64 = 0xfff8_0000_0000_0001;
/// The powers of ten that are doubles, where `powi` may be off by a bit that depends on the
/// machine. Up to these and to a whole number that is one, their quotient is the nearest double.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];
const EXACT_WHOLE: u128 = 1 << 53;

/// The units of dates and timestamps, in nanoseconds.
pub const DAY: i128 = 86_400 * SECOND;
/// As above.
pub const SECOND: i128 = 1000 * MILLISECOND;
/// As above.
pub const MILLISECOND: i128 = 1000 * MICROSECOND;
/// As above.
pub const MICROSECOND: i128 = 1000;

/// A value of a key.
pub enum Value<'v> {
    /// A number that is a double.
    Double(f64),
    /// A whole number.
    Whole(i128),
    /// A whole number that may be too large for the above.
    Unsigned(u128),
    /// So many units of ten to the power of minus `scale`.
    Decimal(i128, u8),
    /// Text or a blob.
    Bytes(&'v [u8]),
    /// A UUID, most significant bits first.
    Uuid(u128),
}

impl Value<'_> {
    fn hash(self, seed: u64) -> u64 {
        match self {
            Value::Double(x) => {
                let x = if x.is_nan() { f64::NAN } else { x + 0.0 };
                xxh3_64_with_seed(&x.to_bits().to_le_bytes(), seed)
            }
            // Conversions of 128 bits take longer than the hash.
            Value::Whole(n) if n.unsigned_abs() <= EXACT_WHOLE => {
                Value::Double(n as i64 as f64).hash(seed)
            }
            Value::Whole(n) if (n as f64) as i128 == n => Value::Double(n as f64).hash(seed),
            Value::Whole(n) => xxh3_64_with_seed(&n.to_le_bytes(), seed),
            Value::Unsigned(n) if (n as f64) as u128 == n => Value::Double(n as f64).hash(seed),
            Value::Unsigned(n) => xxh3_64_with_seed(&n.to_le_bytes(), seed),
            Value::Decimal(mut units, mut scale) => {
                // 1.10 and 1.100 are one number.
                while scale > 0 && units % 10 == 0 {
                    (units, scale) = (units / 10, scale - 1);
                }
                if scale == 0 {
                    return Value::Whole(units).hash(seed);
                }
                let is_whole = units.unsigned_abs() <= EXACT_WHOLE;
                let nearest = match POWERS.get(usize::from(scale)).filter(|_| is_whole) {
                    Some(power) => units as f64 / power,
                    None => format!("{units}e-{scale}").parse().expect("a number"),
                };
                Value::Double(nearest).hash(seed)
            }
            Value::Bytes(bytes) => xxh3_64_with_seed(bytes, seed),
            Value::Uuid(n) => {
                let hex = format!("{n:032x}");
                let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
                xxh3_64_with_seed(parts.join("-").as_bytes(), seed)
            }
        }
    }
}

/// Mix the values of one column into the hashes of their rows.
pub fn mix<'v>(hashes: &mut [u64], missing: &Missing, value: impl Fn(usize) -> Value<'v>) {
    for (row, hash) in hashes.iter_mut().enumerate() {
        *hash = if missing.contains(row) {
            xxh3_64_with_seed(&NULL.to_le_bytes(), *hash)
        } else {
            value(row).hash(*hash)
        };
    }
}

/// The hash to begin with.
pub fn begin(seed: i64) -> Result<u64, String> {
    u64::try_from(seed).map_err(|_| format!("seed is {seed}; it must be a whole number >= 0"))
}

/// The fold, from 0 to k - 1, of a hash.
pub fn fold(hash: u64, k: i64) -> Result<i64, String> {
    if k < 2 {
        return Err(format!("k is {k}; it must be a whole number >= 2"));
    }
    Ok(((u128::from(hash) * k as u128) >> 64) as i64)
}

/// The error for a key that has no value to hash.
pub fn refusal(name: &str, data_type: impl std::fmt::Display) -> String {
    format!(
        "key '{name}' has type {data_type}; a key must be a number, a boolean, text, a blob, a \
         date, a timestamp, or a STRUCT or ARRAY of these"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(value: Value) -> u64 {
        value.hash(0)
    }

    #[test]
    fn a_value_has_one_hash_in_every_form() {
        assert_eq!(hash(Value::Whole(-7)), hash(Value::Double(-7.0)));
        assert_eq!(hash(Value::Double(-0.0)), hash(Value::Whole(0)));
        assert_eq!(hash(Value::Double(f64::NAN)), hash(Value::Double(-f64::NAN)));
        assert_eq!(hash(Value::Decimal(1100, 3)), hash(Value::Double(1.1)));
        assert_eq!(hash(Value::Decimal(-70, 1)), hash(Value::Whole(-7)));
        let large = (1 << 100) + 1;
        assert_eq!(hash(Value::Whole(large)), hash(Value::Unsigned(large as u128)));
        assert_eq!(hash(Value::Whole(large)), hash(Value::Decimal(large * 100, 2)));
        assert_ne!(hash(Value::Whole(large)), hash(Value::Whole(large - 1)));
    }

    #[test]
    fn a_decimal_counts_as_the_nearest_double() {
        // Neither 3^38 nor 10^38 is a double, so that their quotient may be off.
        for scale in 1..=38 {
            let units = 3i128.pow(38);
            let nearest: f64 = format!("{units}e-{scale}").parse().unwrap();
            assert_eq!(hash(Value::Decimal(units, scale)), hash(Value::Double(nearest)));
        }
    }

    #[test]
    fn folds_are_equal_parts_of_the_hashes() {
        for k in [2, 3, 10, i64::MAX] {
            assert_eq!(fold(0, k), Ok(0));
            assert_eq!(fold(u64::MAX, k), Ok(k - 1));
        }
        assert_eq!(fold(1 << 63, 2), Ok(1));
        assert_eq!(fold((1 << 63) - 1, 2), Ok(0));
        assert!(fold(0, 1).is_err() && begin(-1).is_err());
    }

    #[test]
    fn the_values_of_a_row_count_in_their_order() {
        let row = |values: [Option<f64>; 3]| {
            let mut hashes = [begin(5).unwrap()];
            for value in values {
                let mut missing = Missing::none();
                value.is_none().then(|| missing.set(0, 1));
                mix(&mut hashes, &missing, |_| Value::Double(value.unwrap()));
            }
            hashes[0]
        };
        let rows = [[None, None, Some(1.0)], [None, Some(1.0), None], [Some(1.0), None, None]];
        assert!(rows.map(row).windows(2).all(|pair| pair[0] != pair[1]));
        assert_ne!(row([Some(1.0), Some(2.0), None]), row([Some(2.0), Some(1.0), None]));
    }
}
