//! Numbers in as few bytes as hold them.

/// Values of a column, each as it was.
#[derive(Clone, Debug)]
pub(crate) enum Packed {
    /// Whole numbers of a byte.
    I8(Box<[i8]>),
    /// Whole numbers of two.
    I16(Box<[i16]>),
    /// Whole numbers of four.
    I32(Box<[i32]>),
    /// Numbers that are singles.
    F32(Box<[f32]>),
    /// All others.
    F64(Box<[f64]>),
}

impl Packed {
    /// Pack some numbers.
    pub(crate) fn of(values: &[f64]) -> Packed {
        let fits = |narrow: fn(f64) -> f64| values.iter().all(|&x| narrow(x) == x);
        if fits(|x| f64::from(x as i8)) {
            Packed::I8(values.iter().map(|&x| x as i8).collect())
        } else if fits(|x| f64::from(x as i16)) {
            Packed::I16(values.iter().map(|&x| x as i16).collect())
        } else if fits(|x| f64::from(x as i32)) {
            Packed::I32(values.iter().map(|&x| x as i32).collect())
        } else if fits(|x| f64::from(x as f32)) {
            Packed::F32(values.iter().map(|&x| x as f32).collect())
        } else {
            Packed::F64(values.into())
        }
    }

    /// Append the numbers.
    pub(crate) fn read(&self, out: &mut Vec<f64>) {
        match self {
            Packed::I8(values) => out.extend(values.iter().map(|&x| f64::from(x))),
            Packed::I16(values) => out.extend(values.iter().map(|&x| f64::from(x))),
            Packed::I32(values) => out.extend(values.iter().map(|&x| f64::from(x))),
            Packed::F32(values) => out.extend(values.iter().map(|&x| f64::from(x))),
            Packed::F64(values) => out.extend_from_slice(values),
        }
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Packed::I8(values) => values.len(),
            Packed::I16(values) => 2 * values.len(),
            Packed::I32(values) => 4 * values.len(),
            Packed::F32(values) => 4 * values.len(),
            Packed::F64(values) => 8 * values.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read_as_it_was() {
        let cases: [(&[f64], usize); 6] = [
            (&[0.0, 1.0, -128.0], 1),
            (&[128.0, -3.0], 2),
            (&[1e5, -1e9], 4),
            (&[0.5, 3e9], 4),
            (&[0.1, 2.0], 8),
            (&[], 1),
        ];
        for (values, bytes) in cases {
            let packed = Packed::of(values);
            let mut found = Vec::new();
            packed.read(&mut found);
            assert_eq!((&found[..], packed.bytes()), (values, bytes * values.len()));
        }
    }
}
