//! Kept rows as the columns of a problem, and a pass over them.
//!
//! A pass at some coefficients gives each row a working weight and a working residual; the kernel
//! sums them up with the columns. The linear predictors are taken of centred columns, so that a
//! mean far from zero costs no digits; of a column of text they are looked up by level.

use serde_json::Value;

use super::family::Family;
use super::totals::{Computed, Cut, Run, Sum, Sums, Total};
use crate::kernel::gaps::Policy;
use crate::kernel::moments::Moments;
use crate::kernel::threads::of_each;
use crate::record::categories::Layout;
use crate::record::kept::Kept;
use crate::record::terms::{Category, SKIP, Terms};

/// Runs of rows that a thread has at least, or a thread is not worth its start.
const LEAST_PARTS: usize = 8;

/// Which of the kept columns are what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roles {
    /// Columns that may explain the target, in the order of the row.
    pub features: Vec<usize>,
    /// The target.
    pub target: usize,
    /// Weights of the rows.
    pub weight: Option<usize>,
    /// What is added to the predictor; the logarithm of an exposure is kept as such.
    pub added: Vec<usize>,
}

/// Where a column of the problem comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The number of a kept column.
    Number(usize),
    /// That of a column of text, among those of text, and the place of a level.
    Level(usize, usize),
}

/// What the values of a target count as.
#[derive(Clone, Debug, PartialEq)]
pub enum Classes {
    /// What they are.
    Own,
    /// One number a level.
    Levels(Vec<f64>),
    /// 1 where they are that number, else 0.
    Is(f64),
}

/// A column of text.
struct Text {
    /// The number of the kept column.
    column: usize,
    /// The place of each level, by its number.
    places: Vec<u32>,
}

/// Kept rows as the columns of a problem.
pub struct Rows<'k> {
    kept: &'k Kept,
    roles: &'k Roles,
    family: Family,
    /// Names of the columns, in the order of the row; one a level of a text.
    pub columns: Vec<String>,
    sources: Vec<Source>,
    texts: Vec<Text>,
    classes: Classes,
    /// How the columns of the row became these.
    pub terms: Terms,
    threads: usize,
}

/// Coefficients of some columns, in the units of the table.
pub struct Predictor<'p> {
    /// Numbers of the columns.
    pub columns: &'p [usize],
    /// Their coefficients.
    pub slopes: &'p [f64],
    /// From what each is measured.
    pub centers: &'p [f64],
    /// The predictor there.
    pub intercept: f64,
}

impl<'k> Rows<'k> {
    /// The columns of some rows; `base` are the terms that the row's own columns give.
    pub fn new(
        kept: &'k Kept,
        roles: &'k Roles,
        family: Family,
        base: &Terms,
        classes: Classes,
        threads: usize,
    ) -> Rows<'k> {
        let (mut columns, mut sources, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let mut terms = base.clone();
        for &at in &roles.features {
            let column = &kept.shape.columns[at];
            if !column.is_text {
                columns.push(column.name.clone());
                sources.push(Source::Number(at));
                continue;
            }
            let levels: Vec<&[u8]> = kept.levels(at).collect();
            let mut order: Vec<usize> = (0..levels.len()).collect();
            order.sort_by_key(|&code| levels[code]);
            let mut places = vec![0; levels.len()];
            let text = |&code: &usize| String::from_utf8_lossy(levels[code]).into_owned();
            let category = Category {
                column: column.name.clone(),
                levels: order.iter().map(|code| Value::String(text(code))).collect(),
                rest: false,
                null_policy: SKIP.to_string(),
                shares: None,
                reference: None,
            };
            columns.extend(category.names());
            sources.extend((0..order.len()).map(|place| Source::Level(texts.len(), place)));
            for (place, &code) in order.iter().enumerate() {
                places[code] = place as u32;
            }
            texts.push(Text { column: at, places });
            terms.categories.push(category);
        }
        Rows { kept, roles, family, columns, sources, texts, classes, terms, threads }
    }

    /// Rows that were left out.
    pub fn skipped(&self) -> u64 {
        self.kept.skipped
    }

    /// The moments of all columns and the target, by the weights of the rows.
    pub fn first(&self) -> Result<Moments, String> {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let cut = self.cut(&all);
        let sums = self.total(&cut, &|run: &Run| Computed {
            own: run.target.clone(),
            weight: run.weight.clone(),
            deviance: 0.0,
            squares: 0.0,
        })?;
        Ok(sums.moments)
    }

    /// The mean of what is added to the predictor: by link log the logarithm of the mean of its
    /// exponential.
    pub fn shift(&self) -> Result<f64, String> {
        if self.roles.added.is_empty() {
            return Ok(0.0);
        }
        let is_log = self.family.is_log();
        let cut = self.cut(&[]);
        let sums = self.total(&cut, &|run: &Run| Computed {
            own: match is_log {
                true => run.added.iter().map(|x| x.exp()).collect(),
                false => run.added.clone(),
            },
            weight: run.weight.clone(),
            deviance: 0.0,
            squares: 0.0,
        })?;
        let mean = sums.moments.mean_of(0);
        Ok(if is_log { mean.ln() } else { mean })
    }

    /// Make a pass at some coefficients.
    pub fn pass(&self, predictor: &Predictor) -> Result<Sums, String> {
        let cut = self.cut(predictor.columns);
        let mut constant = predictor.intercept;
        let mut slopes = vec![(0.0, 0.0); cut.numbers.len()];
        let mut effects: Vec<Vec<f64>> =
            cut.texts.iter().map(|&text| vec![0.0; self.texts[text].places.len()]).collect();
        let own = predictor.columns.iter().zip(predictor.slopes).zip(predictor.centers);
        for ((&column, &slope), &center) in own {
            match self.sources[column] {
                Source::Number(at) => {
                    if let Some(place) = cut.numbers.iter().position(|&other| other == at) {
                        slopes[place] = (slope, center);
                    }
                }
                Source::Level(text, level) => {
                    if let Some(place) = cut.texts.iter().position(|&other| other == text) {
                        effects[place][level] = slope;
                        constant -= slope * center;
                    }
                }
            }
        }
        self.total(&cut, &|run: &Run| {
            let mut eta = vec![constant; run.rows];
            for (values, &(slope, center)) in run.numbers.iter().zip(&slopes) {
                if slope != 0.0 {
                    eta.iter_mut().zip(values).for_each(|(eta, x)| *eta += slope * (x - center));
                }
            }
            for (codes, effects) in run.codes.iter().zip(&effects) {
                eta.iter_mut().zip(codes).for_each(|(eta, &code)| *eta += effects[code as usize]);
            }
            eta.iter_mut().zip(&run.added).for_each(|(eta, added)| *eta += added);
            self.weigh(&mut eta, run)
        })
    }

    /// Replace predictors by working residuals.
    fn weigh(&self, eta: &mut [f64], run: &Run) -> Computed {
        let (mut deviance, mut squares) = (Sum::default(), Sum::default());
        let mut weights = Vec::with_capacity(run.rows);
        for (at, (own, &y)) in eta.iter_mut().zip(&run.target).enumerate() {
            let row = self.family.row(*own, y);
            let weight = run.weight.as_ref().map_or(1.0, |weight| weight[at]);
            deviance.add(weight * row.deviance);
            let working = weight * row.weight;
            squares.add(working * row.residual * row.residual);
            weights.push(working);
            *own = row.residual;
        }
        Computed {
            own: eta.to_vec(),
            weight: Some(weights),
            deviance: deviance.total(),
            squares: squares.total(),
        }
    }

    /// The kept columns that some columns need.
    fn cut(&self, columns: &[usize]) -> Cut {
        let mut numbers: Vec<usize> = Vec::new();
        let mut texts: Vec<usize> = Vec::new();
        for &column in columns {
            match self.sources[column] {
                Source::Number(at) => numbers.push(at),
                Source::Level(text, _) if !texts.contains(&text) => texts.push(text),
                Source::Level(..) => {}
            }
        }
        let policies = vec![Policy::Skip; numbers.len() + 1];
        let widths: Vec<usize> = texts.iter().map(|&text| self.texts[text].places.len()).collect();
        let layout = Layout::of(&policies, &widths);
        let mut starts = Vec::new();
        let mut start = numbers.len() + 1;
        for width in &widths {
            starts.push(start);
            start += width;
        }
        let place = |&column: &usize| match self.sources[column] {
            Source::Number(at) => numbers.iter().position(|&other| other == at),
            Source::Level(text, level) => {
                let at = texts.iter().position(|&other| other == text);
                at.map(|at| starts[at] + level)
            }
        };
        let own = Some(numbers.len());
        let order = columns.iter().map(place).chain([own]).collect();
        let names = vec![String::new(); numbers.len() + 1];
        Cut { numbers, texts, layout, order, names }
    }

    /// Sum up the columns of a cut and one more, computed run by run.
    fn total(
        &self,
        cut: &Cut,
        compute: &(dyn Fn(&Run) -> Computed + Sync),
    ) -> Result<Sums, String> {
        let parts = self.kept.parts();
        let threads = self.threads.min(parts / LEAST_PARTS).max(1);
        let of = |thread: usize| {
            let mut total = Total::new(cut);
            let own = thread * parts / threads..(thread + 1) * parts / threads;
            for part in own {
                let run = self.run(cut, part);
                total.add(cut, &run, compute(&run))?;
            }
            Ok::<Total, String>(total)
        };
        let mut totals = of_each((0..threads).collect(), of).into_iter();
        let mut all = totals.next().unwrap_or_else(|| Ok(Total::new(cut)))?;
        for other in totals {
            all.merge(cut, other?);
        }
        Ok(all.finish(cut))
    }

    /// A run of rows.
    fn run(&self, cut: &Cut, part: usize) -> Run {
        let read = |column: usize| {
            let mut values = Vec::new();
            self.kept.read(part, column, &mut values);
            values
        };
        let mut target = read(self.roles.target);
        match &self.classes {
            Classes::Own => {}
            Classes::Levels(classes) => target.iter_mut().for_each(|y| *y = classes[*y as usize]),
            Classes::Is(one) => target.iter_mut().for_each(|y| *y = f64::from(u8::from(y == one))),
        }
        let codes = |&text: &usize| {
            let Text { column, places } = &self.texts[text];
            read(*column).into_iter().map(|code| places[code as usize]).collect()
        };
        let mut added = vec![0.0; if self.roles.added.is_empty() { 0 } else { target.len() }];
        for &column in &self.roles.added {
            added.iter_mut().zip(read(column)).for_each(|(sum, x)| *sum += x);
        }
        Run {
            rows: target.len(),
            numbers: cut.numbers.iter().map(|&column| read(column)).collect(),
            codes: cut.texts.iter().map(codes).collect(),
            target,
            weight: self.roles.weight.map(read),
            added,
        }
    }
}
