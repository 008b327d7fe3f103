//! What the penalties of columns and groups are multiplied by.
//!
//! Sources for adaptive factors: Zou (2006), JASA 101, section 3.1; of groups Wang, Leng (2008).

use std::collections::HashMap;
use std::ops::Range;

use crate::linear::algebra::dense::dot;
use crate::linear::columns::match_columns;
use crate::linear::groups::Groups;
use crate::linear::problem::Linear;
use crate::linear::state::{Buffers, State};
use crate::words::error::Error;
use crate::words::nearest::unknown;

/// Factor of a column that has no coefficient to adapt to: it enters nowhere on a path.
const NEVER: f64 = 1e12;

/// What penalties are multiplied by.
#[derive(Clone, Debug)]
pub struct Factors {
    /// Of the D columns.
    pub columns: Vec<f64>,
    /// Of the J groups.
    pub groups: Vec<f64>,
    /// A column whose factor is not that of its group, if there is one.
    pub own: Option<String>,
}

impl Factors {
    /// Match factors to groups and columns; 1 each by default, 0 of the groups taken first.
    ///
    /// The factor of a group is that of its columns, unless a glob or a field names them, and
    /// that unless they are named themselves.
    pub fn of(
        groups: &Groups,
        given: &[(String, f64)],
        always: &[usize],
    ) -> Result<Factors, Error> {
        let members = &groups.members;
        let place: HashMap<&str, usize> =
            members.iter().enumerate().map(|(j, name)| (name.as_str(), j)).collect();
        let number = |name: &String| groups.names.iter().position(|other| other == name);
        let columns = |group: usize| groups.starts[group]..groups.starts[group + 1];
        let mut found = Factors {
            columns: vec![1.0; members.len()],
            groups: vec![1.0; groups.names.len()],
            own: None,
        };
        let mut rest: Vec<&(String, f64)> = Vec::new();
        for one in given {
            let (name, factor) = one;
            let Some(group) = number(name) else {
                rest.push(one);
                continue;
            };
            let at = columns(group);
            let is_alone = at.len() == 1 && members[at.start] == *name;
            if place.contains_key(name.as_str()) && !is_alone {
                return Err(Error::argument(format!(
                    "penalty_factors names '{name}', which is a group and a column of another"
                )));
            }
            found.groups[group] = *factor;
            found.columns[at].fill(*factor);
        }
        for &group in always {
            found.groups[group] = 0.0;
            found.columns[columns(group)].fill(0.0);
        }
        // Those named themselves last.
        rest.sort_by_key(|(name, _)| place.contains_key(name.as_str()));
        for (name, factor) in rest {
            let means = match_columns(std::slice::from_ref(name), members, "penalty_factors");
            let means = means.map_err(|_| {
                let unknown = unknown("column or group", name, members);
                Error::column(format!("penalty_factors names {unknown}"))
            })?;
            for column in means {
                found.columns[place[column.as_str()]] = *factor;
                found.own.get_or_insert(column);
            }
        }
        Ok(found)
    }
}

/// The lengths of the least-squares coefficients of all columns, in some stretches of them.
pub struct Pilot {
    w: Vec<f64>,
    power: f64,
}

impl Pilot {
    /// The least squares of a problem whose group g has the columns from `starts[g]` on, and the
    /// power of the factors.
    pub fn of(problem: &Linear, starts: &[usize], power: f64) -> Pilot {
        let mut state = State::new(problem, starts, Buffers::default());
        (0..state.size()).for_each(|group| {
            state.add(group);
        });
        let mut coef = Vec::new();
        state.coefficients(&mut coef);
        let own = |j: usize| state.place(j).map_or(0.0, |row| coef[row] / problem.unit[j]);
        Pilot { w: (0..problem.width()).map(own).collect(), power }
    }

    /// `1 / ||w||^power` on some columns; `NEVER` where they depend on others.
    pub fn factor(&self, at: Range<usize>) -> f64 {
        let w = &self.w[at];
        dot(w, w).sqrt().powf(-self.power).min(NEVER)
    }
}
