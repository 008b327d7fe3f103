//! What it is worth to accept a row, and to learn more of it before.
//!
//! A row is accepted if `m = worth (prediction - accept_above)` is above 0. Groups move its
//! prediction by a normal deviate with standard deviation `sd(y) sqrt(F(S + g) - F(S))`, if rows are
//! normal; of `s`, that times `|worth|`, they are worth
//!
//! ```text
//! s phi(m / s) + m Phi(m / s) - max(m, 0)
//! ```
//!
//! Source: Howard (1966), Information value theory, IEEE Transactions on Systems Science and
//! Cybernetics 2; the formula is the expected improvement of Mockus (1975).

use crate::glm::family::Family;
use crate::glm::normal;
use crate::linear::prices::Offers;
use crate::linear::state::{Buffers, State};
use crate::methods::given::Given;
use crate::methods::options::refused;
use crate::methods::pattern::Pattern;
use crate::methods::question::Setting;
use crate::record::prefix::fits;
use crate::search::steps::{Action, ROUNDING_GAIN};
use crate::search::walks::moves::{take, together};
use crate::words::error::Error;
use crate::words::value::Value;

/// More than the density of the normal distribution anywhere.
const DENSEST: f64 = 0.4;
/// Standard deviations beyond which a normal deviate counts for nothing.
const FAR: f64 = 8.0;
/// Intervals of Simpson's rule on either side of the threshold; even.
const INTERVALS: usize = 40;

/// Which rows are accepted, and what that is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stake {
    accept_above: f64,
    worth: f64,
    /// Where predictions are linear predictors of a family.
    family: Option<Family>,
}

/// Groups that a row may be given, in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The first of them.
    pub first: usize,
    /// What all cost.
    pub cost: f64,
    /// The standard deviation by which they move the prediction.
    pub spread: f64,
}

impl Stake {
    /// Read `accept_above` and `worth`, or `payoff`; nothing if none is there.
    pub fn read(given: &Given, family: Option<Family>) -> Result<Option<Stake>, Error> {
        let number = |name: &str| match given.number(name)? {
            Some(number) if !number.is_finite() => Err(refused(name, &Value::Number(number))),
            number => Ok(number),
        };
        let (above, worth) = (number("accept_above")?, number("worth")?);
        let Some(payoff) = given.get("payoff") else {
            if worth == Some(0.0) {
                return Err(refused("worth", &Value::Number(0.0)));
            }
            let (accept_above, worth_or_one) = (above.unwrap_or(0.0), worth.unwrap_or(1.0));
            let own = Stake { accept_above, worth: worth_or_one, family };
            return Ok((above.is_some() || worth.is_some()).then_some(own));
        };
        if above.is_some() || worth.is_some() {
            return Err(Error::argument(format!(
                "payoff is {payoff}, beside accept_above or worth; give one or the other"
            )));
        }
        let pair = given.numbers("payoff")?.unwrap_or_default();
        let [one, zero] = pair[..] else { return Err(refused("payoff", payoff)) };
        // What is lost may be given with or without its sign.
        let zero = if one < 0.0 { zero.abs() } else { -zero.abs() };
        let worth = one - zero;
        if !worth.is_finite() || worth == 0.0 {
            return Err(refused("payoff", payoff));
        }
        Ok(Some(Stake { accept_above: -zero / worth, worth, family }))
    }

    /// What it is worth to accept a row, > 0 if it is accepted.
    pub fn margin(&self, prediction: f64) -> f64 {
        let mean = self.family.map_or(prediction, |family| family.mean(prediction));
        self.worth * (mean - self.accept_above)
    }

    /// What it is worth to see a deviate of the prediction before.
    pub fn value(&self, prediction: f64, spread: f64) -> f64 {
        let Some(family) = self.family else {
            let z = ((prediction - self.accept_above) / spread).abs();
            let gain = normal::log_density(z).exp() - z * normal::tail(z);
            return self.worth.abs() * spread * gain.max(0.0);
        };
        let threshold = (family.predictor(self.accept_above) - prediction) / spread;
        if threshold.is_nan() || threshold.abs() >= FAR {
            return 0.0;
        }
        let part = |from: f64, to: f64| {
            let step = (to - from) / INTERVALS as f64;
            let at = |i: usize| {
                let z = from + step * i as f64;
                let mean = family.mean(prediction + spread * z);
                let weight = if i == 0 || i == INTERVALS { 1.0 } else { [2.0, 4.0][i % 2] };
                weight * (mean - self.accept_above).abs() * normal::log_density(z).exp()
            };
            self.worth.abs() * step / 3.0 * (0..=INTERVALS).map(at).sum::<f64>()
        };
        // Whichever side is decided for, the other is what may be gained.
        part(-FAR, threshold).min(part(threshold, FAR))
    }

    /// The offer that is worth most above its cost, and by how much, among those that cost no more
    /// than a limit; nothing if none is worth its cost.
    pub fn best(&self, offers: &[Offer], prediction: f64, limit: f64) -> Option<(usize, f64)> {
        let can = |offer: &&Offer| fits(offer.cost, Some(limit));
        let net = |offer: &Offer| (offer.first, self.value(prediction, offer.spread) - offer.cost);
        let best = |a: (usize, f64), b: (usize, f64)| if b.1 > a.1 { b } else { a };
        offers.iter().filter(can).map(net).reduce(best).filter(|(_, net)| *net > 0.0)
    }

    /// What a row of a pattern may be given: each group, and after it others by what they explain
    /// for their cost; without what costs more than it can be worth, or than one that moves more.
    pub fn offers(&self, asked: &Setting, pattern: &Pattern) -> Vec<Offer> {
        let (starts, prices) = (&asked.plan.groups.starts, asked.plan.groups.prices());
        let unit = (asked.gram.comoment(asked.target, asked.target) / asked.gram.weight).sqrt();
        // A deviate is worth most at the threshold; the mean of a probability has no slope above.
        let steepest = self.family.map_or(1.0, |family| match family.is_binomial() {
            true => 0.5,
            false => f64::INFINITY,
        });
        let may = |cost: f64, spread: f64| cost < self.worth.abs() * steepest * DENSEST * spread;
        // What costs nothing more comes first.
        let rate = |gain: f64, cost: f64| gain / cost.max(f64::MIN_POSITIVE);
        let best = |gains: &[f64], now: &Offers| {
            let can = |&group: &usize| gains[group] > ROUNDING_GAIN && now.is_open(group);
            let own = |group: usize| rate(gains[group], now.costs[group]);
            let larger = |a: usize, b: usize| if own(b) > own(a) { b } else { a };
            (0..gains.len()).filter(can).reduce(larger)
        };
        let may_come = |group: &usize| {
            pattern.gains[*group] > ROUNDING_GAIN && pattern.costs[*group].is_finite()
        };
        let mut firsts: Vec<usize> = (0..pattern.gains.len()).filter(may_come).collect();
        let own = |group: usize| rate(pattern.gains[group], pattern.costs[group]);
        firsts.sort_by(|&a, &b| own(b).total_cmp(&own(a)));
        let (mut offers, mut gains) = (Vec::new(), Vec::new());
        let mut buffers = Buffers::default();
        for &group in &firsts {
            let mut state = State::new(asked.problem, starts, std::mem::take(&mut buffers));
            pattern.groups.iter().for_each(|&group| {
                state.add(group);
            });
            // What it needs is bought before it.
            let first = prices.with_needs(group, state.waiting())[0];
            let (before, mut cost, mut next) = (state.explained(), 0.0, Some(group));
            let mut now = prices.offers(state.waiting());
            while let Some(group) = next {
                cost += now.costs[group];
                take(&mut state, prices, group);
                let spread = unit * (state.explained() - before).max(0.0).sqrt();
                if !may(cost, unit * (1.0 - before).max(0.0).sqrt()) {
                    break;
                }
                if may(cost, spread) {
                    offers.push(Offer { first, cost, spread });
                }
                let gain = &mut |state: &mut State, all: &mut Vec<f64>| state.gains(all);
                together(&mut state, prices, Action::Add, gain, &mut gains);
                now = prices.offers(state.waiting());
                next = best(&gains, &now);
            }
            buffers = state.into_buffers();
        }
        offers.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(b.spread.total_cmp(&a.spread)));
        let mut most = 0.0;
        offers.retain(|offer| {
            let is_more = offer.spread > most;
            most = most.max(offer.spread);
            is_more
        });
        offers
    }
}
