//! Least squares as values: what was asked about a model.

use crate::linear::fit::{Ask, Diagnosis, FitRequest, Fitted};
use crate::linear::inference::{Term, Tests};
use crate::methods::answer::{Cell, Found};

impl Fitted {
    /// What a request asks about the model, of the type that its method returns.
    pub fn answer<'f>(&'f self, request: &FitRequest, tests: &mut Tests) -> Found<'f> {
        let cell = match (&self.diagnosis, &request.ask) {
            (Some(diagnosis), _) => self.diagnosed(diagnosis),
            (None, Ask::Summary(level)) => {
                Cell::List(tests.of(self, *level).iter().map(term).collect())
            }
            (None, _) => self.model(),
        };
        let trace = self.trace.map(|trace| self.columns[trace.column].as_str());
        Found { cell, condition: self.condition, trace }
    }

    fn model(&self) -> Cell<'_> {
        let aliased = self.columns.iter().zip(&self.aliased).filter(|(_, is)| **is);
        Cell::List(vec![
            Cell::Number(self.intercept),
            Cell::map(&self.columns, &self.coefficients),
            Cell::Number(self.explained),
            Cell::Number(self.r2),
            Cell::Number(self.sigma().unwrap_or(f64::NAN)),
            Cell::Whole(self.rows),
            Cell::Whole(self.skipped),
            Cell::texts(aliased.map(|(name, _)| name)),
            self.note().map_or(Cell::Null, |note| Cell::Text(note.into())),
        ])
    }

    fn diagnosed(&self, diagnosis: &Diagnosis) -> Cell<'_> {
        let by_column = |numbers: &mut dyn Iterator<Item = Vec<f64>>| {
            let row = |(name, numbers): (&'_ String, Vec<f64>)| {
                let numbers = numbers.into_iter().map(Cell::Number);
                Cell::List([Cell::Text(name.clone().into())].into_iter().chain(numbers).collect())
            };
            Cell::List(self.columns.iter().zip(numbers).map(row).collect())
        };
        match diagnosis {
            Diagnosis::Inflation(factors) => by_column(&mut factors.iter().map(|one| vec![*one])),
            Diagnosis::Partials(each) => by_column(
                &mut each.iter().map(|one| vec![one.correlation, one.partial, one.semipartial]),
            ),
            Diagnosis::Condition(number) => Cell::Number(*number),
            Diagnosis::FTest(test) => Cell::List(vec![
                Cell::Whole(test.df),
                Cell::Whole(test.df_residual),
                Cell::Number(test.statistic),
                Cell::Number(test.p_value),
            ]),
        }
    }
}

fn term<'f>(term: &Term<'f>) -> Cell<'f> {
    let Term { name, estimate, std_error, statistic, p_value, standardized, low, high } = *term;
    let numbers = [estimate, std_error, statistic, p_value, standardized, low, high];
    Cell::List([Cell::text(name)].into_iter().chain(numbers.map(Cell::Number)).collect())
}
