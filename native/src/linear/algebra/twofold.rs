//! A sum of products in twice the digits of a double.
//!
//! Source: Ogita, Rump, Oishi (2005), Accurate Sum and Dot Product, algorithm Dot2.

/// A sum, and what rounding took from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Twofold {
    high: f64,
    low: f64,
}

impl Twofold {
    /// Begin with a number.
    pub fn of(start: f64) -> Twofold {
        Twofold { high: start, low: 0.0 }
    }

    /// Add a product.
    pub fn add(&mut self, a: f64, b: f64) {
        let product = a * b;
        let lost = a.mul_add(b, -product);
        let sum = self.high + product;
        let back = sum - self.high;
        self.low += ((self.high - (sum - back)) + (product - back)) + lost;
        self.high = sum;
    }

    /// The sum, rounded once.
    pub fn value(self) -> f64 {
        self.high + self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cancels_leaves_the_rest() {
        let mut sum = Twofold::of(1e16);
        [(1.0, 1.0), (-1e8, 1e8), (0.1, 0.1)].into_iter().for_each(|(a, b)| sum.add(a, b));
        // 1 + 0.1 * 0.1, of the double 0.1.
        assert_eq!(sum.value(), 1.01);
    }
}
