//! What sets of groups cost, and which sets may be bought: every search asks here.
//!
//! A set costs the sum of its items, each paid once: what each group costs on its own, and the
//! set-ups that its groups share. It may be bought if it holds all that its groups need, at most
//! one group of each list of rivals, and keeps to the limits of further units. Summed costs are the
//! case without rules.
//!
//! The twin of `dbselect/record/prices.py`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::record::prefix::fits;
use crate::words::error::{Error, listed, rounded, shown};
use crate::words::nearest::unknown;

/// A group that costs nothing more is scored by this share of the least cost, so that it comes first.
const FREE: f64 = 1e-9;

/// A further unit by names: its name, what groups cost in it, the limit, and whether the dearest
/// group counts instead of the sum.
pub type NamedLimit = (String, Vec<(String, f64)>, f64, bool);

/// What is said of prices beside the costs, by names of groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Name of a set-up, what it costs, and the groups of which the first bought pays it.
    pub shared: Vec<(String, f64, Vec<String>)>,
    /// A group and those that must be bought with it.
    pub needs: Vec<(String, Vec<String>)>,
    /// Lists of groups, of each at most one.
    pub one_of: Vec<Vec<String>>,
    /// Further units.
    pub limits: Vec<NamedLimit>,
}

impl Conditions {
    /// Whether costs are summed and every set may be bought.
    pub fn is_empty(&self) -> bool {
        *self == Conditions::default()
    }

    /// The conditions that are told, by name, as `Conditions.renamed` in Python writes them.
    pub fn to_json(&self) -> Vec<(&'static str, Json)> {
        let costs = |costs: &[(String, f64)]| -> Json {
            costs.iter().map(|(name, cost)| (name.clone(), json!(cost))).collect()
        };
        let shared = self.shared.iter().map(|(name, cost, who)| (name.clone(), json!([cost, who])));
        let needs = self.needs.iter().map(|(name, needs)| (name.clone(), json!(needs)));
        let limits = self.limits.iter().map(|(unit, used, most, is_largest)| {
            let how = if *is_largest { "max" } else { "sum" };
            (unit.clone(), json!([costs(used), most, how]))
        });
        let all = [
            ("shared", shared.collect::<Json>()),
            ("needs", needs.collect()),
            ("one_of", json!(self.one_of)),
            ("limits", limits.collect()),
        ];
        let is_told = |value: &Json| {
            value.as_object().is_none_or(|all| !all.is_empty())
                && value.as_array().is_none_or(|all| !all.is_empty())
        };
        all.into_iter().filter(|(_, value)| is_told(value)).collect()
    }

    /// Some groups behind those that need any of them.
    pub fn with_dependents(&self, groups: &[String]) -> Vec<String> {
        let mut all = groups.to_vec();
        let next = |all: &[String]| {
            let lacks = |(name, needs): &&(String, Vec<String>)| {
                !all.contains(name) && needs.iter().any(|need| all.contains(need))
            };
            self.needs.iter().find(lacks).map(|(name, _)| name.clone())
        };
        while let Some(name) = next(&all) {
            all.push(name);
        }
        all
    }

    /// The conditions on the groups that are not left out.
    pub fn without(mut self, out: &[String]) -> Conditions {
        let keep = |groups: &mut Vec<String>| groups.retain(|name| !out.contains(name));
        self.shared.iter_mut().for_each(|(_, _, groups)| keep(groups));
        self.shared.retain(|(_, _, groups)| !groups.is_empty());
        self.needs.retain(|(name, _)| !out.contains(name));
        self.needs.iter_mut().for_each(|(_, needs)| keep(needs));
        self.one_of.iter_mut().for_each(keep);
        self.one_of.retain(|groups| !groups.is_empty());
        let costs = self.limits.iter_mut().map(|(_, costs, ..)| costs);
        costs.for_each(|costs| costs.retain(|(name, _)| !out.contains(name)));
        self
    }

    /// Whether a group may cost nothing on its own.
    pub fn has_set_up(&self, group: &str) -> bool {
        self.shared.iter().any(|(_, _, groups)| groups.iter().any(|name| name == group))
    }
}

/// A further unit.
#[derive(Clone, Debug)]
struct Limit {
    unit: String,
    costs: Vec<f64>,
    most: f64,
    is_largest: bool,
}

impl Limit {
    fn beside(&self, used: f64, group: usize) -> f64 {
        if self.is_largest { used.max(self.costs[group]) } else { used + self.costs[group] }
    }
}

/// Conditions on J groups, by number.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// What each item costs.
    items: Vec<f64>,
    /// Items of each group.
    parts: Vec<Vec<usize>>,
    /// All that each group needs, each after what it needs itself.
    needs: Vec<Vec<usize>>,
    /// All that need each group, each before what it needs.
    dependents: Vec<Vec<usize>>,
    /// Lists of rivals, and the lists of each group.
    one_of: Vec<Vec<usize>>,
    lists: Vec<Vec<usize>>,
    limits: Vec<Limit>,
}

/// What some groups have paid and used up.
#[derive(Clone, Debug)]
struct Basket {
    paid: Vec<bool>,
    taken: Vec<usize>,
    used: Vec<f64>,
}

impl Rules {
    /// The rules of groups that cost `costs` on their own.
    pub fn new(names: &[String], costs: &[f64], told: &Conditions) -> Result<Rules, Error> {
        let own = (0..costs.len()).map(|group| vec![group]).collect();
        Rules::of_parts(names, costs.to_vec(), own, told)
    }

    /// The rules of groups of items, of which some are in several.
    pub fn of_parts(
        names: &[String],
        mut items: Vec<f64>,
        mut parts: Vec<Vec<usize>>,
        told: &Conditions,
    ) -> Result<Rules, Error> {
        let size = names.len();
        let numbers = |groups: &[String], what: &str| -> Result<Vec<usize>, Error> {
            groups.iter().map(|name| number(names, name, what)).collect()
        };
        for (name, cost, groups) in &told.shared {
            for group in numbers(groups, &format!("shared '{name}'"))? {
                parts[group].push(items.len());
            }
            items.push(*cost);
        }
        let mut direct = vec![Vec::new(); size];
        for (name, groups) in &told.needs {
            direct[number(names, name, "needs")?] = numbers(groups, &format!("needs of '{name}'"))?;
        }
        let needs = closures(names, &direct)?;
        let one_of = told.one_of.iter().map(|list| numbers(list, "one_of"));
        let one_of: Vec<Vec<usize>> = one_of.collect::<Result<_, _>>()?;
        let mut limits = Vec::new();
        for (unit, by_name, most, is_largest) in &told.limits {
            let mut costs = vec![0.0; size];
            for (name, cost) in by_name {
                costs[number(names, name, &format!("limits '{unit}'"))?] = *cost;
            }
            limits.push(Limit { unit: unit.clone(), costs, most: *most, is_largest: *is_largest });
        }
        let of = |all: &[Vec<usize>], group: usize| -> Vec<usize> {
            (0..all.len()).filter(|&at| all[at].contains(&group)).collect()
        };
        let mut dependents: Vec<Vec<usize>> = (0..size).map(|group| of(&needs, group)).collect();
        // A group needs more than any group that it needs.
        dependents.iter_mut().for_each(|all| all.sort_by_key(|&other| size - needs[other].len()));
        let lists = (0..size).map(|group| of(&one_of, group)).collect();
        let rules = Rules { items, parts, needs, dependents, one_of, lists, limits };
        (0..size).try_for_each(|group| rules.check(names, group))?;
        Ok(rules)
    }

    /// The rules, with another cost of a group on its own.
    pub fn priced(mut self, group: usize, cost: f64) -> Rules {
        self.items[group] = cost;
        self
    }

    /// Refuse a group that no set may hold.
    fn check(&self, names: &[String], group: usize) -> Result<(), Error> {
        let all = self.moved(group, &|_| true);
        let words = |reason: String| {
            let name = &names[group];
            Err(Error::group(format!("group '{name}' can never be bought: {reason}")))
        };
        let with = if all.len() == 1 {
            String::new()
        } else {
            let needs = all[..all.len() - 1].iter().map(|&need| &names[need][..]);
            format!(" with {}, which it needs,", listed(needs))
        };
        if let Some(list) = self
            .one_of
            .iter()
            .find(|list| all.iter().filter(|group| list.contains(group)).count() > 1)
        {
            let rivals = list.iter().filter(|rival| all.contains(rival));
            let rivals = listed(rivals.map(|&rival| &names[rival][..]));
            return words(format!("it comes{with} and one_of allows one of {rivals}"));
        }
        for limit in &self.limits {
            let used = all.iter().fold(0.0, |used, &group| limit.beside(used, group));
            if !fits(used, Some(limit.most)) {
                let (used, most, unit) = (rounded(used), shown(limit.most), &limit.unit);
                return words(format!("it takes{with} {used} of '{unit}'; limits allow {most}"));
            }
        }
        Ok(())
    }

    /// A group behind those that it needs and that `waits`.
    fn moved(&self, group: usize, waits: &dyn Fn(usize) -> bool) -> Vec<usize> {
        let missing = self.needs[group].iter().copied().filter(|&need| waits(need));
        missing.chain([group]).collect()
    }

    fn basket(&self, groups: impl IntoIterator<Item = usize>) -> (Basket, f64) {
        let mut basket = Basket {
            paid: vec![false; self.items.len()],
            taken: vec![0; self.one_of.len()],
            used: vec![0.0; self.limits.len()],
        };
        let mut spent = 0.0;
        for group in groups {
            for &item in &self.parts[group] {
                spent += if basket.paid[item] { 0.0 } else { self.items[item] };
                basket.paid[item] = true;
            }
            self.lists[group].iter().for_each(|&list| basket.taken[list] += 1);
            let used = basket.used.iter_mut().zip(&self.limits);
            used.for_each(|(used, limit)| *used = limit.beside(*used, group));
        }
        (basket, spent)
    }

    /// What some groups cost beside a basket.
    fn price(&self, basket: &Basket, groups: &[usize]) -> f64 {
        let mut new: Vec<usize> =
            groups.iter().flat_map(|&group| self.parts[group].iter().copied()).collect();
        if groups.len() > 1 {
            new.sort_unstable();
            new.dedup();
        }
        new.iter()
            .filter(|&&item| !basket.paid[item])
            .fold(0.0, |sum, &item| sum + self.items[item])
    }

    /// Whether some groups may come to a basket.
    fn takes(&self, basket: &Basket, groups: &[usize]) -> bool {
        let of_list =
            |list: usize| groups.iter().filter(|group| self.lists[**group].contains(&list)).count();
        let mut lists = groups.iter().flat_map(|&group| self.lists[group].iter().copied());
        let keeps = |(limit, used): (&Limit, &f64)| {
            let used = groups.iter().fold(*used, |used, &group| limit.beside(used, group));
            fits(used, Some(limit.most))
        };
        lists.all(|list| basket.taken[list] + of_list(list) <= 1)
            && self.limits.iter().zip(&basket.used).all(keeps)
    }
}

/// The number of a group that a condition names.
fn number(names: &[String], name: &str, what: &str) -> Result<usize, Error> {
    let found = names.iter().position(|other| other == name);
    found.ok_or_else(|| Error::group(format!("{what} names {}", unknown("group", name, names))))
}

/// All that each group needs, each after what it needs itself; a circle is shown.
fn closures(names: &[String], direct: &[Vec<usize>]) -> Result<Vec<Vec<usize>>, Error> {
    fn visit(
        group: usize,
        names: &[String],
        direct: &[Vec<usize>],
        path: &mut Vec<usize>,
        found: &mut Vec<usize>,
    ) -> Result<(), Error> {
        if let Some(at) = path.iter().position(|&other| other == group) {
            let circle = path[at..].iter().chain([&group]).map(|&group| &names[group][..]);
            let circle = circle.collect::<Vec<_>>().join(" -> ");
            return Err(Error::group(format!("needs has a circle: {circle}")));
        }
        if found.contains(&group) {
            return Ok(());
        }
        path.push(group);
        for &need in &direct[group] {
            visit(need, names, direct, path, found)?;
        }
        path.pop();
        found.push(group);
        Ok(())
    }
    let mut all = Vec::with_capacity(names.len());
    for group in 0..names.len() {
        let mut found = Vec::new();
        visit(group, names, direct, &mut Vec::new(), &mut found)?;
        found.pop();
        all.push(found);
    }
    Ok(all)
}

/// What groups cost, and the conditions on them, if there are any.
#[derive(Clone, Copy, Debug)]
pub struct Prices<'p> {
    /// What each group costs on its own.
    pub costs: &'p [f64],
    rules: Option<&'p Rules>,
}

/// What each group that waits costs beside those held, together with those that it needs.
#[derive(Clone, Debug)]
pub struct Offers<'p> {
    /// What they cost together now.
    pub costs: Cow<'p, [f64]>,
    /// The same, with little in the place of nothing.
    pub counted: Cow<'p, [f64]>,
    /// Whether rivals and limits let it come; nothing where they always do.
    open: Option<Vec<bool>>,
}

impl Offers<'_> {
    /// Whether rivals and limits let a group come.
    pub fn is_open(&self, group: usize) -> bool {
        self.open.as_ref().is_none_or(|open| open[group])
    }
}

impl<'p> Prices<'p> {
    /// Groups whose costs are summed, and of which every set may be bought.
    pub fn of(costs: &'p [f64]) -> Prices<'p> {
        Prices { costs, rules: None }
    }

    /// Groups with rules, if there are any.
    pub fn new(costs: &'p [f64], rules: Option<&'p Rules>) -> Prices<'p> {
        Prices { costs, rules }
    }

    /// Whether costs are summed, and every set may be bought.
    pub fn are_sums(&self) -> bool {
        self.rules.is_none()
    }

    /// What some groups cost together.
    pub fn spent(&self, groups: impl IntoIterator<Item = usize>) -> f64 {
        match self.rules {
            // `sum` of nothing is -0.0.
            None => groups.into_iter().fold(0.0, |sum, group| sum + self.costs[group]),
            Some(rules) => rules.basket(groups).1,
        }
    }

    /// What a group pays that comes to others, by itself.
    pub fn own(&self, group: usize, others: impl IntoIterator<Item = usize>) -> f64 {
        let of = |rules: &Rules| rules.price(&rules.basket(others).0, &[group]);
        self.rules.map_or(self.costs[group], of)
    }

    /// A group behind those that it needs and that wait.
    pub fn with_needs(&self, group: usize, waiting: &[bool]) -> Vec<usize> {
        self.rules.map_or_else(|| vec![group], |rules| rules.moved(group, &|need| waiting[need]))
    }

    /// A group behind those that need it and do not wait.
    pub fn with_dependents(&self, group: usize, waiting: &[bool]) -> Vec<usize> {
        let of = |rules: &Rules| {
            let held = rules.dependents[group].iter().copied().filter(|&other| !waiting[other]);
            held.chain([group]).collect()
        };
        self.rules.map_or_else(|| vec![group], of)
    }

    /// Whether a group needs, or is needed by, any other.
    pub fn is_tied(&self, group: usize) -> bool {
        let is =
            |rules: &Rules| !rules.needs[group].is_empty() || !rules.dependents[group].is_empty();
        self.rules.is_some_and(is)
    }

    /// Groups, each behind those that it needs, each once.
    pub fn closed(&self, groups: &[usize]) -> Vec<usize> {
        let Some(rules) = self.rules else { return groups.to_vec() };
        let mut seen = HashSet::new();
        let all = groups.iter().flat_map(|&group| rules.moved(group, &|_| true));
        all.filter(|&group| seen.insert(group)).collect()
    }

    /// Whether rivals and limits let some groups be held together.
    pub fn may_hold(&self, groups: &[usize]) -> bool {
        let holds = |rules: &Rules| rules.takes(&rules.basket([]).0, groups);
        self.rules.is_none_or(holds)
    }

    /// Whether some groups may be bought: they hold what they need, too.
    pub fn allows(&self, groups: &[usize]) -> bool {
        let is_closed = |rules: &Rules| {
            let has = |need: &usize| groups.contains(need);
            groups.iter().all(|&group| rules.needs[group].iter().all(has))
        };
        self.rules.is_none_or(is_closed) && self.may_hold(groups)
    }

    /// What each group that waits costs now.
    pub fn offers(&self, waiting: &[bool]) -> Offers<'p> {
        let Some(rules) = self.rules else {
            let costs = Cow::Borrowed(self.costs);
            return Offers { counted: costs.clone(), costs, open: None };
        };
        let held = (0..self.costs.len()).filter(|&group| !waiting[group]);
        let (basket, _) = rules.basket(held);
        let moves = (0..self.costs.len()).map(|group| rules.moved(group, &|need| waiting[need]));
        let (costs, open): (Vec<f64>, Vec<bool>) = moves
            .map(|groups| (rules.price(&basket, &groups), rules.takes(&basket, &groups)))
            .unzip();
        let counted = self.counted(&costs);
        Offers { counted: Cow::Owned(counted), costs: Cow::Owned(costs), open: Some(open) }
    }

    /// Whether each of some groups may come to those held, with what it needs, for what is left.
    ///
    /// Those that may not are added to those left out, which no group may need; unless costs are
    /// sums.
    pub fn comers(
        &self,
        held: &[usize],
        groups: &[usize],
        left: f64,
        out: &mut Vec<usize>,
    ) -> Vec<bool> {
        let mut waiting = vec![true; self.costs.len()];
        held.iter().for_each(|&group| waiting[group] = false);
        let offers = self.offers(&waiting);
        let mut comes = |&group: &usize| {
            let needs = || self.with_needs(group, &waiting);
            let is = offers.costs[group] <= left
                && offers.is_open(group)
                && (out.is_empty() || needs().iter().all(|need| !out.contains(need)));
            if !is && !self.are_sums() {
                out.push(group);
            }
            is
        };
        groups.iter().map(&mut comes).collect()
    }

    /// Costs with little in the place of nothing.
    fn counted(&self, costs: &[f64]) -> Vec<f64> {
        let least = self.least();
        costs.iter().map(|cost| cost.max(least)).collect()
    }

    /// What counts for nothing.
    fn least(&self) -> f64 {
        let items = self.rules.map_or(self.costs, |rules| &rules.items);
        let least = items.iter().copied().filter(|cost| *cost > 0.0).fold(f64::INFINITY, f64::min);
        FREE * if least.is_finite() { least } else { 1.0 }
    }

    /// What each group that is held gives back with those that need it; little for nothing.
    pub fn given_back(&self, waiting: &[bool]) -> Cow<'p, [f64]> {
        if self.rules.is_none() {
            return Cow::Borrowed(self.costs);
        }
        let held = |out: &[usize]| {
            let stays = |group: &usize| !waiting[*group] && !out.contains(group);
            self.spent((0..self.costs.len()).filter(stays))
        };
        let all = held(&[]);
        let back = |group: usize| {
            if waiting[group] {
                self.costs[group]
            } else {
                all - held(&self.with_dependents(group, waiting))
            }
        };
        Cow::Owned(self.counted(&(0..self.costs.len()).map(back).collect::<Vec<_>>()))
    }

    /// Costs of some groups whose sum over any of them is at most what these add to those held, and
    /// over all of them no less; each more than 0, by `slack` in all.
    pub fn from_below(&self, held: &[usize], groups: &[usize]) -> (Vec<f64>, f64) {
        let Some(rules) = self.rules else {
            return (groups.iter().map(|&group| self.costs[group]).collect(), 0.0);
        };
        let (basket, _) = rules.basket(held.iter().copied());
        let items = |&group: &usize| {
            let all = rules.moved(group, &|need| !held.contains(&need));
            let mut items: Vec<usize> =
                all.iter().flat_map(|&group| rules.parts[group].iter().copied()).collect();
            items.retain(|&item| !basket.paid[item]);
            items.sort_unstable();
            items.dedup();
            items
        };
        let each: Vec<Vec<usize>> = groups.iter().map(items).collect();
        let mut count = vec![0.0; rules.items.len()];
        each.iter().flatten().for_each(|&item| count[item] += 1.0);
        let share = |items: &Vec<usize>| {
            items.iter().fold(0.0, |sum, &item| sum + rules.items[item] / count[item])
        };
        let costs = self.counted(&each.iter().map(share).collect::<Vec<_>>());
        (costs, self.least() * groups.len() as f64)
    }

    /// For each unit of which a sum is limited, what some groups take of it and what those held
    /// leave, as `from_below`.
    pub fn of_limits(&self, held: &[usize], groups: &[usize]) -> Vec<(Vec<f64>, f64)> {
        let limits = self.rules.map_or(&[][..], |rules| &rules.limits);
        let own = |limit: &Limit| {
            let least = FREE * limit.most.max(f64::MIN_POSITIVE);
            let used: f64 = held.iter().map(|&group| limit.costs[group]).sum();
            let costs = groups.iter().map(|&group| limit.costs[group].max(least)).collect();
            (costs, limit.most * (1.0 + FREE) - used + least * groups.len() as f64)
        };
        limits.iter().filter(|limit| !limit.is_largest).map(own).collect()
    }

    /// Groups of lists of which more than one is held; none if rivals keep apart.
    pub fn rivals(&self, groups: &[usize]) -> Vec<usize> {
        let Some(rules) = self.rules else { return Vec::new() };
        let (basket, _) = rules.basket(groups.iter().copied());
        let is_one =
            |group: &&usize| rules.lists[**group].iter().any(|&list| basket.taken[list] > 1);
        groups.iter().filter(is_one).copied().collect()
    }
}

/// The rules of groups; nothing if no condition is told.
pub fn rules_of(
    names: &[String],
    costs: &[f64],
    told: &Conditions,
) -> Result<Option<Arc<Rules>>, Error> {
    let rules = (!told.is_empty()).then(|| Rules::new(names, costs, told)).transpose()?;
    Ok(rules.map(Arc::new))
}
