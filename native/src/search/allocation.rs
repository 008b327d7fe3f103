//! One budget for the sequences of many segments.
//!
//! The prefixes of a segment are points: what a row costs, and what it gains. Those on the concave
//! hull are steps of falling gain per cost, and the steps of all segments, merged by it, are an
//! optimum of the linear programme in which a segment may be between two points. One step at most
//! is then too dear; without it, cheaper ones fill what is left.
//!
//! Source: Sinha, Zoltners (1979), The multiple-choice knapsack problem, Operations Research 27.

use crate::record::prefix::fits;

/// The prefixes of a segment.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    /// How many rows it has; NaN counts as none where there is no prefix.
    pub rows: f64,
    /// What the whole variance of a row is worth.
    pub worth: f64,
    /// What each prefix costs a row; none if there is no prefix.
    pub spent: &'a [f64],
    /// The share of the variance that each explains.
    pub explained: &'a [f64],
}

/// A prefix for each segment.
pub struct Allocation {
    /// Its place; nothing where there is none.
    pub steps: Vec<Option<usize>>,
    /// What it is worth, on average over all rows.
    pub value: f64,
    /// What it costs, on average.
    pub spent: f64,
    /// What none can exceed.
    pub bound: f64,
}

/// A step along a hull.
struct Step {
    slope: f64,
    segment: u32,
    to: u32,
}

impl Segment<'_> {
    fn check(&self, at: usize) -> Result<(), String> {
        let refuse = |name: &str, value: f64| {
            Err(format!("{name} is {value} in row {}; it must be a finite number >= 0", at + 1))
        };
        let is_right = |value: f64| value.is_finite() && value >= 0.0;
        if self.spent.is_empty() && self.rows.is_nan() {
            return Ok(());
        }
        match (self.rows, self.worth) {
            (rows, _) if !is_right(rows) => return refuse("rows", rows),
            (_, worth) if !is_right(worth) && !self.spent.is_empty() => {
                return refuse("worth", worth);
            }
            _ if self.spent.len() != self.explained.len() => {
                return Err(format!("row {} has a sequence with steps that are NULL", at + 1));
            }
            _ => {}
        }
        if let Some(&spent) = self.spent.iter().find(|spent| !is_right(**spent)) {
            return refuse("spent", spent);
        }
        match self.explained.iter().find(|explained| !explained.is_finite()) {
            Some(explained) => Err(format!(
                "explained is {explained} in row {}; it must be a finite number",
                at + 1
            )),
            None => Ok(()),
        }
    }

    fn cost(&self, at: usize) -> f64 {
        self.rows * self.spent[at]
    }

    fn gain(&self, at: usize) -> f64 {
        self.rows * self.worth * self.explained[at]
    }

    /// The cheapest prefix, the best of equals, and the places of the hull above it.
    fn hull(&self, order: &mut Vec<usize>, hull: &mut Vec<usize>) {
        let (spent, explained) = (self.spent, self.explained);
        order.clear();
        order.extend(0..spent.len());
        order.sort_by(|&a, &b| {
            spent[a].total_cmp(&spent[b]).then(explained[b].total_cmp(&explained[a]))
        });
        hull.clear();
        for &next in order.iter() {
            let Some(&last) = hull.last() else {
                hull.push(next);
                continue;
            };
            if explained[next] <= explained[last] || spent[next] <= spent[last] {
                continue;
            }
            while let [.., before, last] = hull[..] {
                let rise = (explained[last] - explained[before]) * (spent[next] - spent[last]);
                let falls =
                    rise >= (explained[next] - explained[last]) * (spent[last] - spent[before]);
                if falls {
                    break;
                }
                hull.pop();
            }
            hull.push(next);
        }
    }
}

/// Choose a prefix for each segment so that rows cost no more than a budget on average.
///
/// O(S log S) for S steps of all, which take 16 bytes each.
pub fn allocate(segments: &[Segment], budget: f64) -> Result<Allocation, String> {
    if budget.is_nan() || budget < 0.0 {
        return Err(format!("budget is {budget}; it must be a number >= 0"));
    }
    segments.iter().enumerate().try_for_each(|(at, segment)| segment.check(at))?;
    let rows: f64 = segments.iter().map(|segment| segment.rows).filter(|rows| !rows.is_nan()).sum();
    if rows <= 0.0 {
        return Err("sequences have no rows; rows must be above 0 somewhere".to_string());
    }
    let (mut order, mut hull) = (Vec::new(), Vec::new());
    let (mut taken, mut steps) = (Vec::with_capacity(segments.len()), Vec::new());
    let (mut spent, mut value) = (0.0, 0.0);
    for (number, segment) in segments.iter().enumerate() {
        segment.hull(&mut order, &mut hull);
        let Some(&first) = hull.first() else {
            taken.push(None);
            continue;
        };
        taken.push(Some(first));
        spent += segment.cost(first);
        value += segment.gain(first);
        let slope = |a: usize, b: usize| {
            let rise = segment.explained[b] - segment.explained[a];
            segment.worth * rise / (segment.spent[b] - segment.spent[a])
        };
        let step = |ends: &[usize]| Step {
            slope: slope(ends[0], ends[1]),
            segment: number as u32,
            to: ends[1] as u32,
        };
        let worthwhile = |step: &Step| step.slope > 0.0 && segment.rows > 0.0;
        steps.extend(hull.windows(2).map(step).filter(worthwhile));
    }
    let limit = budget * rows;
    if !fits(spent, Some(limit)) {
        return Err(format!(
            "budget is {budget}; the cheapest prefixes cost {} a row already",
            spent / rows
        ));
    }
    // Stable: the steps of a segment stay in their order, where rounding makes slopes equal.
    steps.sort_by(|a, b| b.slope.total_cmp(&a.slope).then(a.segment.cmp(&b.segment)));
    let mut bound = None;
    let mut is_closed = vec![false; segments.len()];
    for step in steps {
        let (at, to) = (step.segment as usize, step.to as usize);
        let (segment, Some(from)) = (&segments[at], taken[at]) else { continue };
        let cost = segment.cost(to) - segment.cost(from);
        if is_closed[at] || cost <= 0.0 {
            continue; // The latter where rounding turned slopes around.
        }
        let gain = segment.gain(to) - segment.gain(from);
        if fits(spent + cost, Some(limit)) {
            (spent, value, taken[at]) = (spent + cost, value + gain, Some(to));
        } else {
            bound.get_or_insert(value + gain * ((limit - spent) / cost).max(0.0));
            is_closed[at] = true;
        }
    }
    // What is left may pay for a prefix below the hull.
    for (at, segment) in segments.iter().enumerate().filter(|(at, _)| is_closed[*at]) {
        let Some(from) = taken[at] else { continue };
        let can = |&to: &usize| fits(spent + segment.cost(to) - segment.cost(from), Some(limit));
        let better = |a: &usize, b: &usize| segment.gain(*a).total_cmp(&segment.gain(*b));
        let best = (0..segment.spent.len()).rev().filter(can).max_by(better);
        if let Some(to) = best.filter(|&to| segment.gain(to) > segment.gain(from)) {
            spent += segment.cost(to) - segment.cost(from);
            value += segment.gain(to) - segment.gain(from);
            taken[at] = Some(to);
        }
    }
    let bound = bound.unwrap_or(value).max(value);
    let [value, spent, bound] = [value, spent, bound].map(|total| total / rows);
    Ok(Allocation { steps: taken, value, spent, bound })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::draws::Draws;

    /// The best of all choices, by enumeration.
    fn best(segments: &[Segment], limit: f64) -> f64 {
        let Some((first, rest)) = segments.split_first() else { return 0.0 };
        let of = |at: usize| match limit - first.cost(at) {
            left if left < -1e-9 => f64::NEG_INFINITY,
            left => first.gain(at) + best(rest, left),
        };
        (0..first.spent.len()).map(of).fold(f64::NEG_INFINITY, f64::max)
    }

    #[test]
    fn what_is_allocated_lies_between_the_best_and_one_step_less() {
        let mut draws = Draws::new(3);
        let mut below = |most: f64| (draws.normal().abs() * most).floor() % most;
        for budget in 0..40 {
            let mut points = Vec::new();
            for _ in 0..5 {
                let (mut spent, mut explained) = (vec![0.0], vec![0.0]);
                for at in 0..4 {
                    spent.push(spent[at] + 1.0 + below(4.0));
                    explained.push(explained[at] + below(5.0) / 20.0);
                }
                points.push((1.0 + below(3.0), below(4.0), spent, explained));
            }
            let segment = |(rows, worth, spent, explained): &'_ (f64, f64, Vec<f64>, Vec<f64>)| {
                let (spent, explained) = (spent.clone().leak(), explained.clone().leak());
                Segment { rows: *rows, worth: *worth, spent, explained }
            };
            let segments: Vec<Segment> = points.iter().map(segment).collect();
            let rows: f64 = segments.iter().map(|segment| segment.rows).sum();
            let budget = f64::from(budget) / 4.0;
            let found = allocate(&segments, budget).unwrap();
            let best = best(&segments, budget * rows) / rows;
            let step = segments.iter().map(|own| own.rows * own.worth * own.explained[4]);
            let step = step.fold(0.0, f64::max) / rows;
            assert!(found.spent <= budget + 1e-9);
            assert!(found.value <= best + 1e-9 && best <= found.bound + 1e-9);
            assert!(found.value >= found.bound - step - 1e-9);
        }
    }

    #[test]
    fn wrong_numbers_are_told_by_their_row() {
        let own = Segment { rows: 1.0, worth: 1.0, spent: &[0.0, 1.0], explained: &[0.0, 0.5] };
        let told = |segment: Segment, budget| allocate(&[own, segment], budget).err().unwrap();
        assert!(told(Segment { rows: f64::NAN, ..own }, 1.0).starts_with("rows is NaN in row 2"));
        assert!(told(Segment { worth: -1.0, ..own }, 1.0).starts_with("worth is -1 in row 2"));
        assert!(told(Segment { spent: &[2.0, 3.0], ..own }, 0.5).contains("cost 1 a row"));
        assert!(told(own, -1.0).starts_with("budget is -1"));
    }
}
