//! Which groups beat their knockoffs, at a bounded share of false discoveries.
//!
//! Sources: Barber, Candes (2015), eq. 1.9, knockoff+; Ren, Barber (2024), eq. 5, for e-values of
//! knockoffs; Wang, Ramdas (2022) for the procedure of Benjamini and Hochberg by e-values.

/// What some draws of knockoffs say of J groups.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Mean over the draws, above 0 where the group comes before its knockoff.
    pub statistic: Vec<f64>,
    /// Share of the draws that select it.
    pub frequency: Vec<f64>,
    /// Mean of its e-values.
    pub e_value: Vec<f64>,
    /// Whether it is selected.
    pub selected: Vec<bool>,
}

/// The bound at which each of some draws selects.
pub fn bound_of_each(q: f64, draws: usize) -> f64 {
    if draws == 1 { q } else { q / 2.0 }
}

/// Join the statistics of some draws, J each.
pub fn select(statistics: &[f64], size: usize, q: f64) -> Selection {
    let draws = statistics.len() / size;
    let each = bound_of_each(q, draws);
    let mut found = Selection {
        statistic: vec![0.0; size],
        frequency: vec![0.0; size],
        e_value: vec![0.0; size],
        selected: Vec::new(),
    };
    for statistic in statistics.chunks_exact(size) {
        for (at, value) in e_values(statistic, each).into_iter().enumerate() {
            found.statistic[at] += statistic[at] / draws as f64;
            found.frequency[at] += f64::from(u8::from(value > 0.0)) / draws as f64;
            found.e_value[at] += value / draws as f64;
        }
    }
    found.selected = e_select(&found.e_value, q);
    found
}

/// The least threshold with `(1 + #{W <= -t}) / #{W >= t} <= q`; infinite if none has.
fn knockoff_plus(statistic: &[f64], q: f64) -> f64 {
    let mut sizes: Vec<f64> = statistic.iter().map(|w| w.abs()).filter(|w| *w > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    let is_enough = |&threshold: &f64| {
        let above = statistic.iter().filter(|w| **w >= threshold).count();
        let below = statistic.iter().filter(|w| **w <= -threshold).count();
        above > 0 && (1 + below) as f64 / above as f64 <= q
    };
    sizes.into_iter().find(is_enough).unwrap_or(f64::INFINITY)
}

/// J over 1 + #{W <= -T} for each group at the knockoff+ threshold T, others 0.
fn e_values(statistic: &[f64], q: f64) -> Vec<f64> {
    let threshold = knockoff_plus(statistic, q);
    let beyond = 1 + statistic.iter().filter(|w| **w <= -threshold).count();
    let value = statistic.len() as f64 / beyond as f64;
    statistic.iter().map(|w| if *w >= threshold { value } else { 0.0 }).collect()
}

/// The k largest e-values, for the largest k whose least e-value is J / (q k).
fn e_select(values: &[f64], q: f64) -> Vec<bool> {
    let mut order = values.to_vec();
    order.sort_by(|a, b| b.total_cmp(a));
    let needed = |k: usize| values.len() as f64 / (q * (k + 1) as f64);
    // Means of equal e-values differ from them by rounding.
    let last = (0..order.len()).rev().find(|&k| order[k] >= needed(k) * (1.0 - 1e-12));
    let least = last.map_or(f64::INFINITY, |k| order[k]);
    values.iter().map(|value| *value >= least).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lcg;

    #[test]
    fn the_threshold_is_the_least_that_keeps_the_share() {
        let mut random = Lcg::new(4);
        for _ in 0..50 {
            let mut order: Vec<f64> = (1..=30).map(f64::from).collect();
            order.sort_by_cached_key(|_| (random.uniform() * 1e9) as i64);
            let sign = |w: f64| if random.uniform() < 0.75 { w } else { -w };
            let w: Vec<f64> = order.into_iter().map(sign).collect();
            let count = |is: &dyn Fn(f64) -> bool| w.iter().filter(|w| is(**w)).count() as f64;
            let is_within = |t: &f64| 1.0 + count(&|w| w <= -*t) <= 0.2 * count(&|w| w >= *t);
            let within = (1..=30).map(f64::from).find(is_within).unwrap_or(f64::INFINITY);
            assert_eq!(knockoff_plus(&w, 0.2), within);
            // With one draw, e-values select what the threshold does.
            let chosen: Vec<bool> = w.iter().map(|w| *w >= within).collect();
            assert_eq!(select(&w, 30, 0.2).selected, chosen);
        }
        assert_eq!(knockoff_plus(&[0.0; 4], 0.5), f64::INFINITY);
    }

    #[test]
    fn e_values_select_as_the_definition_says() {
        let mut random = Lcg::new(5);
        for q in [0.1, 0.3, 0.5] {
            for _ in 0..50 {
                let values: Vec<f64> = (0..6).map(|_| -3.0 * random.uniform().ln()).collect();
                let mut falling = values.clone();
                falling.sort_by(|a, b| b.total_cmp(a));
                // Every number of groups, from 1 on, whose least e-value is enough.
                let enough = |k: &usize| falling[k - 1] >= 6.0 / (q * *k as f64);
                let best = (1..=6).rev().find(enough).unwrap_or(0);
                let chosen = e_select(&values, q);
                assert_eq!(chosen.iter().filter(|is| **is).count(), best);
                let held = values.iter().zip(&chosen).filter(|(_, is)| **is).map(|(v, _)| *v);
                let least = if best > 0 { falling[best - 1] } else { 0.0 };
                assert!(held.fold(f64::INFINITY, f64::min) >= least);
            }
        }
    }
}
