//! Random numbers, names and choices: all that a case is made of comes of its seed.

/// A SplitMix64 generator (Steele, Lea and Flood, 2014): any seed is as good as any other.
pub struct Draw(u64);

/// Names that have broken programs: quotes, globs, brackets, dots, nothing, other scripts.
const NAMES: [&str; 24] = [
    "",
    " ",
    "a",
    "A",
    "a.b",
    "a[1]",
    "^a$",
    "*",
    "x*",
    "[ab]",
    "a\"b",
    "a'b",
    "`",
    "a;DROP TABLE t",
    "a\nb",
    "a\\",
    "--",
    "x.missing",
    "k.\u{1F600}",
    "\u{202E}abc",
    "e\u{301}",
    "\u{e9}",
    "{}",
    "%s",
];

impl Draw {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A whole number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A whole number from `-most` to `most`.
    pub fn within(&mut self, most: i64) -> i64 {
        (self.word() % (2 * most as u64 + 1)) as i64 - most
    }

    /// One of some values.
    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// A double of any bits, or one that is often a border.
    pub fn double(&mut self) -> f64 {
        const BORDERS: [f64; 14] = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1e308,
            -1e308,
            1e-308,
            5e-324,
            1e16,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            f64::EPSILON,
        ];
        match self.below(3) {
            0 => self.of(&BORDERS),
            1 => f64::from_bits(self.word()),
            _ => self.within(1000) as f64 / 8.0,
        }
    }

    /// Names of which no two are equal, without the NUL that ends a text of C.
    pub fn names(&mut self, count: usize) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        while names.len() < count {
            let mut name = self.of(&NAMES).to_string();
            match self.below(8) {
                0 => name = name.repeat(100),
                1..=4 => name.push_str(&self.below(100).to_string()),
                _ => {}
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Bytes, each random.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count.div_ceil(8)).flat_map(|_| self.word().to_le_bytes()).take(count).collect()
    }
}
