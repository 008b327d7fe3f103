//! Numbers of more digits than a double has: whole numbers of a unit.
//!
//! Integers beyond 2^53, timestamps and decimals are rounded where they become doubles. Rows
//! are centred before they are multiplied, and what differs from a center is small: where the
//! center is taken away from the whole numbers, nothing is rounded but the difference.

use std::borrow::Cow;
use std::ops::Range;

/// Below it, doubles hold every whole number.
const WHOLE_NUMBERS: f64 = 9_007_199_254_740_992.0;
/// Fractions of fewer units are as near to a double as any measured number: its rounding is
/// 2^-22 of a unit or less.
const FEW_UNITS: f64 = 4_294_967_296.0;
/// Doubles from here on are beyond the range of 128 bits.
const BEYOND: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
/// A mean is two doubles, 106 bits: numbers that share more than these of their first bits leave
/// fewer than 12 to what they differ by, 2^-24 of a variance.
const SHARED: f64 = 19_807_040_628_566_084_398_385_987_584.0;

/// A column of a chunk as whole numbers of a unit.
#[derive(Clone)]
pub struct Units<'a> {
    /// The number of the column in the chunk.
    pub column: usize,
    values: Cow<'a, [i128]>,
    /// Units that make one.
    per_one: i128,
}

impl<'a> Units<'a> {
    /// The values of a column, asked for only if doubles do not hold them.
    pub fn of(
        column: usize,
        doubles: &[f64],
        per_one: i128,
        values: impl FnOnce() -> Vec<i128>,
    ) -> Option<Units<'a>> {
        let most = doubles.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let least = if per_one == 1 { WHOLE_NUMBERS } else { FEW_UNITS / per_one as f64 };
        // Infinite dates are refused later, if their rows are used.
        let is_held = most < least || (most >= BEYOND && most.is_finite());
        (!is_held).then(|| Units { column, values: Cow::Owned(values()), per_one })
    }

    /// Some of the rows.
    pub fn slice(&self, rows: Range<usize>) -> Units<'_> {
        Units { values: Cow::Borrowed(&self.values[rows]), ..*self }
    }

    /// The rows of some numbers.
    pub fn picked<'b>(&self, rows: &[usize]) -> Units<'b> {
        Units { values: rows.iter().map(|&row| self.values[row]).collect(), ..*self }
    }

    /// The same values as another column.
    pub fn of_column(self, column: usize) -> Units<'a> {
        Units { column, ..self }
    }

    /// Refuse numbers that differ by less than the digits of a mean; `doubles` has NaN where one is
    /// missing.
    pub fn check_spread(&self, doubles: &[f64], label: impl Fn() -> String) -> Result<(), String> {
        let largest = doubles.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        if largest * (self.per_one as f64) < SHARED {
            return Ok(());
        }
        let present = self.values.iter().zip(doubles).filter(|(_, x)| !x.is_nan()).map(|(n, _)| *n);
        let ends = present.fold(None, |ends: Option<(i128, i128)>, n| {
            Some(ends.map_or((n, n), |(least, most)| (least.min(n), most.max(n))))
        });
        let spread = ends.and_then(|(least, most)| most.checked_sub(least)).unwrap_or_default();
        if spread == 0 || spread as f64 * SHARED >= largest * self.per_one as f64 {
            return Ok(());
        }
        Err(format!(
            "{} has numbers near {largest:e} that differ by {:e} only, which is beyond the digits \
             of a mean; subtract one of them from all",
            label(),
            spread as f64 / self.per_one as f64
        ))
    }

    /// Values less some number, rounded once.
    pub fn less(&self, from: f64) -> impl Fn(usize) -> f64 {
        let one = self.per_one as f64;
        let (whole, part) = (from.floor(), from - from.floor());
        // Of what lies between two whole numbers, units and the part of one.
        let units_of_part = (part * one).round();
        let rest = part.mul_add(one, -units_of_part);
        // As many units as that is, if so many can be counted.
        let origin = (whole.abs() < BEYOND).then_some(whole as i128);
        let origin = origin.and_then(|whole| whole.checked_mul(self.per_one));
        let origin = origin.and_then(|units| units.checked_add(units_of_part as i128));
        move |row| match origin.and_then(|origin| self.values[row].checked_sub(origin)) {
            Some(units) => (double(units) - rest) / one,
            None => double(self.values[row]) / one - from,
        }
    }
}

/// As a double; most differences fit a register.
fn double(units: i128) -> f64 {
    i64::try_from(units).map_or_else(|_| units as f64, |units| units as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_exact() {
        let values: Vec<i128> = (0..9).map(|k| (1 << 60) + k).collect();
        let doubles: Vec<f64> = values.iter().map(|&x| x as f64).collect();
        let units = Units::of(0, &doubles, 1, || values).unwrap();
        let less = units.less(2f64.powi(60));
        assert!((0..9).all(|k| less(k) == k as f64));
        let picked = units.slice(2..9).picked(&[1, 0]);
        let less = picked.less(2f64.powi(60) - 256.0);
        assert_eq!([less(0), less(1)], [259.0, 258.0]);
    }

    #[test]
    fn a_unit_may_be_a_fraction() {
        let values = || vec![1_700_000_000_123_456_789, 1_700_000_000_123_456_790];
        let units = Units::of(0, &[1.7e9, 1.7e9], 1_000_000_000, values).unwrap();
        let less = units.less(1_700_000_000.0);
        assert_eq!([less(0), less(1)], [0.123456789, 0.12345679]);
        // The center may lie between two seconds.
        assert_eq!(units.less(1_700_000_000.125)(0), -0.001543211);
        // Or between two units.
        let from = 1_700_000_000.0 + 129_453.0 * 2f64.powi(-20);
        let difference = units.less(from)(0) - 123_456_789e-9 + 129_453.0 * 2f64.powi(-20);
        assert!(difference.abs() < 1e-16);
    }

    #[test]
    fn what_doubles_hold_stays_one() {
        let none = || unreachable!("the doubles are enough");
        assert!(Units::of(0, &[WHOLE_NUMBERS - 1.0, f64::NAN], 1, none).is_none());
        assert!(Units::of(0, &[42_949_672.95], 100, none).is_none());
        assert!(Units::of(0, &[BEYOND], 1, none).is_none());
    }

    #[test]
    fn numbers_that_a_mean_cannot_tell_apart_are_refused() {
        let told = |first: i128, by: i128, per_one: i128| {
            let values = vec![first, first + by, 0];
            let one = |x: i128| x as f64 / per_one as f64;
            let doubles = [one(first), one(first + by), f64::NAN];
            let units = Units::of(0, &doubles, per_one, || values).unwrap();
            units.check_spread(&doubles, || "column 'a'".into())
        };
        let first = 10i128.pow(33);
        assert!(told(-first, 599, 1).unwrap_err().contains("column 'a' has numbers near 1e33"));
        assert!(told(first, 599, 1000).unwrap_err().contains("differ by 5.99e-1 only"));
        assert_eq!(told(first, 0, 1), Ok(()));
        assert_eq!(told(first, first / 1000, 1), Ok(()));
        assert_eq!(told(10i128.pow(30), 599, 1), Ok(()));
    }

    #[test]
    fn what_differs_too_much_to_be_counted_is_rounded() {
        let units = Units::of(0, &[1e38, 1e38], 1, || vec![i128::MAX, i128::MIN]).unwrap();
        let less = units.less(-1e38);
        assert_eq!(less(0), i128::MAX as f64 + 1e38);
        assert_eq!(less(1), i128::MIN as f64 + 1e38);
    }
}
