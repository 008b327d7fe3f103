//! Groups: which columns are bought together, and what each group costs.
//!
//! The twin of `dbselect/record/groups.py`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::kernel::gaps::SUFFIX;
use crate::linear::columns::{fields_of, match_columns, with_indicators};
use crate::linear::prices::{Conditions, Prices, Rules, rules_of};
use crate::record::terms::Terms;
use crate::words::error::{Error, listed, shown};
use crate::words::nearest::unknown;

/// Which searches take a column in several groups: those that give no group back.
const WHO_SHARES: &str =
    "only anytime_sequence, greedy, top_k and random_k of one Gram take groups that share columns";

/// Why groups may not be held.
const APART: &str = "one_of or limits do not allow them together, with what they need";

/// Name of each group and its columns or globs, in order.
pub type GroupColumns = Vec<(String, Vec<String>)>;
/// Name of each group and its cost.
pub type Costs = Vec<(String, f64)>;

/// J groups of some columns, each with a cost; a column may lie in several.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// Names, in the order given; ties go to the first.
    pub names: Vec<String>,
    /// The D columns of all groups, group by group; one that lies in several comes as often.
    pub members: Vec<String>,
    /// Where the columns of each group begin in `members`, and where the last ends.
    pub starts: Vec<usize>,
    /// Cost of each group on its own, in the caller's unit.
    pub costs: Vec<f64>,
    /// The conditions on sets of them, if there are any.
    pub rules: Option<Arc<Rules>>,
}

impl Groups {
    /// What sets of the groups cost, and which may be bought.
    pub fn prices(&self) -> Prices<'_> {
        Prices::new(&self.costs, self.rules.as_deref())
    }

    /// The groups under conditions.
    pub fn under(self, told: &Conditions) -> Result<Groups, Error> {
        let rules = rules_of(&self.names, &self.costs, told)?;
        Ok(Groups { rules, ..self })
    }

    /// The groups, of which one costs something else on its own.
    pub fn priced(&self, group: usize, cost: f64) -> Groups {
        let mut groups = self.clone();
        groups.costs[group] = cost;
        let rules = self.rules.as_deref().cloned();
        groups.rules = rules.map(|rules| Arc::new(rules.priced(group, cost)));
        groups
    }

    /// Numbers of the groups of some columns, in their order.
    pub fn of_columns(&self, columns: &[usize]) -> Vec<usize> {
        let has = |group: &usize| {
            let at = self.starts[*group]..self.starts[group + 1];
            columns.iter().any(|column| at.contains(column))
        };
        (0..self.names.len()).filter(has).collect()
    }

    /// The number of a group that an option names.
    pub fn number(&self, name: &str, option: &str) -> Result<usize, Error> {
        let found = self.names.iter().position(|other| other == name);
        found.ok_or_else(|| {
            Error::group(format!("{option} names {}", unknown("group", name, &self.names)))
        })
    }

    /// Numbers of the groups that an option names, each once, without those to take first.
    pub fn others(
        &self,
        names: &[String],
        option: &str,
        first: &[usize],
    ) -> Result<Vec<usize>, Error> {
        let mut seen: HashSet<usize> = first.iter().copied().collect();
        let numbers = names.iter().map(|name| self.number(name, option));
        let numbers: Vec<usize> = numbers.collect::<Result<_, _>>()?;
        let others: Vec<usize> = numbers.into_iter().filter(|&group| seen.insert(group)).collect();
        if self.prices().may_hold(&self.prices().closed(&[first, &others].concat())) {
            return Ok(others);
        }
        let names = listed(names.iter().map(String::as_str));
        Err(Error::group(format!("{option} is {names}; {APART}")))
    }

    /// Numbers of the groups to take first, each behind those that it needs.
    pub fn numbers(&self, always: &[String]) -> Result<Vec<usize>, Error> {
        let number = |name: &String| self.number(name, "always");
        let first: Vec<usize> = always.iter().map(number).collect::<Result<_, _>>()?;
        let mut seen = HashSet::new();
        let is_once = first.iter().all(|group| seen.insert(group));
        let first = self.prices().closed(&first);
        if is_once && self.prices().may_hold(&first) {
            return Ok(first);
        }
        let always = listed(always.iter().map(String::as_str));
        let words = if is_once { APART } else { "it names a group twice" };
        Err(Error::group(format!("always is {always}; {words}")))
    }
}

/// Match groups and costs to the features of a table.
///
/// `features` are the columns other than the target; without `groups` every top-level field
/// is a group, without `costs` every cost is 1. Indicators `x.missing` follow their columns
/// unless a group names these. `terms` describe how the columns of the table became the
/// features; `sharing` is whether a column may lie in several groups; `told` are conditions on sets
/// of groups.
pub fn groups_of(
    features: &[String],
    groups: Option<&GroupColumns>,
    costs: Option<&Costs>,
    target: &str,
    terms: &Terms,
    sharing: bool,
    told: &Conditions,
) -> Result<Groups, Error> {
    let columns = match groups {
        None => fields(features, terms),
        Some(groups) => named(features, groups, target)?,
    };
    if columns.is_empty() {
        return Err(Error::group(
            "there is no group; at least one column besides the target is needed".to_string(),
        ));
    }
    if !sharing {
        check_partition(&columns)?;
    }
    let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    let costs = costs_of(&names, costs, told)?;
    let (mut members, mut starts) = (Vec::new(), vec![0]);
    for (_, mut columns) in columns {
        members.append(&mut columns);
        starts.push(members.len());
    }
    Groups { names, members, starts, costs, rules: None }.under(told)
}

/// Every top-level field as a group.
fn fields(features: &[String], terms: &Terms) -> GroupColumns {
    let mut groups: GroupColumns = Vec::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for (column, field) in features.iter().zip(fields_of(features, terms)) {
        let number = *numbers.entry(field.clone()).or_insert(groups.len());
        if number == groups.len() {
            groups.push((field, Vec::new()));
        }
        groups[number].1.push(column.clone());
    }
    groups
}

/// The columns that the caller's groups mean.
fn named(features: &[String], groups: &GroupColumns, target: &str) -> Result<GroupColumns, Error> {
    let mut names = HashSet::new();
    for (name, patterns) in groups {
        if !names.insert(name) {
            return Err(Error::group(format!("groups names group '{name}' twice")));
        }
        if patterns.is_empty() {
            return Err(Error::group(format!(
                "group '{name}' is empty; it must have at least one column"
            )));
        }
        if patterns.iter().any(|pattern| pattern == target) {
            return Err(Error::group(format!(
                "group '{name}' names the target '{target}'; a target belongs to no group"
            )));
        }
    }
    let matched = |(name, patterns): &(String, Vec<String>)| {
        let columns = match_columns(patterns, features, &format!("group '{name}'"))?;
        Ok((name.clone(), columns))
    };
    let columns: GroupColumns = groups.iter().map(matched).collect::<Result<_, Error>>()?;
    let known: HashSet<&str> = features.iter().map(String::as_str).collect();
    if !features.iter().any(|name| name.ends_with(SUFFIX)) {
        return Ok(columns);
    }
    let named = columns.iter().flat_map(|(_, columns)| columns).cloned().collect();
    let followed = |(name, columns)| (name, with_indicators(columns, &known, &named));
    Ok(columns.into_iter().map(followed).collect())
}

fn check_partition(columns: &GroupColumns) -> Result<(), Error> {
    let mut owner: HashMap<&str, &str> = HashMap::new();
    for (name, members) in columns {
        for column in members {
            if let Some(other) = owner.insert(column, name) {
                return Err(Error::group(format!(
                    "column '{column}' lies in group '{other}' and in group '{name}'; {WHO_SHARES}"
                )));
            }
        }
    }
    Ok(())
}

/// The cost of each group, in the order of the names; 1 each if none is given.
fn costs_of(names: &[String], costs: Option<&Costs>, told: &Conditions) -> Result<Vec<f64>, Error> {
    let Some(costs) = costs else {
        return Ok(vec![1.0; names.len()]);
    };
    let known: HashSet<&String> = names.iter().collect();
    if let Some((name, _)) = costs.iter().find(|(name, _)| !known.contains(name)) {
        return Err(Error::group(format!("costs names {}", unknown("group", name, names))));
    }
    let by_name: HashMap<&String, f64> = costs.iter().map(|(name, cost)| (name, *cost)).collect();
    let cost_of = |name: &String| match by_name.get(name) {
        None => Err(Error::group(format!(
            "group '{name}' has no cost; costs must name every group; groups limits them"
        ))),
        Some(&cost) if cost > 0.0 && cost.is_finite() => Ok(cost),
        Some(&cost) if cost == 0.0 && told.has_set_up(name) => Ok(cost),
        Some(&cost) => Err(Error::group(format!(
            "group '{name}' has cost {}; costs must be > 0 and finite",
            shown(cost)
        ))),
    };
    names.iter().map(cost_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    /// Names of groups and their patterns.
    type Named<'t> = &'t [(&'t str, &'t [&'t str])];

    fn given(groups: Named) -> GroupColumns {
        groups.iter().map(|(name, columns)| (name.to_string(), texts(columns))).collect()
    }

    #[test]
    fn every_top_level_field_is_a_group() {
        let features = texts(&["demo.age", "x", "emb[1]", "demo.job", "emb[2]"]);
        let groups =
            groups_of(&features, None, None, "y", &Terms::default(), false, &Conditions::default())
                .unwrap();
        assert_eq!(groups.names, ["demo", "x", "emb"]);
        assert_eq!(groups.members, ["demo.age", "demo.job", "x", "emb[1]", "emb[2]"]);
        assert_eq!(groups.starts, [0, 2, 3, 5]);
        assert_eq!(groups.costs, [1.0; 3]);
    }

    #[test]
    fn indicators_follow_their_columns_unless_they_are_named() {
        let features = texts(&["a", "a.missing", "b", "b.missing"]);
        let asked = given(&[("g", &["a"]), ("h", &["b"]), ("i", &["b.missing"])]);
        let groups = groups_of(
            &features,
            Some(&asked),
            None,
            "y",
            &Terms::default(),
            false,
            &Conditions::default(),
        )
        .unwrap();
        assert_eq!(groups.members, ["a", "a.missing", "b", "b.missing"]);
        assert_eq!(groups.starts, [0, 2, 3, 4]);
    }

    #[test]
    fn a_column_of_two_groups_is_told_by_the_first() {
        let features = texts(&["a", "b", "c"]);
        let asked = given(&[("g", &["b", "a"]), ("h", &["a", "c"])]);
        let none = Terms::default();
        let groups =
            groups_of(&features, Some(&asked), None, "y", &none, true, &Conditions::default())
                .unwrap();
        assert_eq!(groups.members, ["b", "a", "a", "c"]);
        assert_eq!(groups.starts, [0, 2, 4]);
    }

    #[test]
    fn each_mistake_is_named() {
        let (features, none) = (texts(&["a", "b"]), Terms::default());
        let cases: [(Named, &str); 5] = [
            (&[], "there is no group"),
            (&[("g", &[])], "group 'g' is empty"),
            (&[("g", &["y"])], "group 'g' names the target 'y'"),
            (&[("g", &["a"]), ("h", &["*"])], "column 'a' lies in group 'g' and in group 'h'"),
            (&[("g", &["c*"])], "group 'g' names unknown column 'c*'"),
        ];
        for (asked, message) in cases {
            let error = groups_of(
                &features,
                Some(&given(asked)),
                None,
                "y",
                &none,
                false,
                &Conditions::default(),
            )
            .unwrap_err();
            assert!(error.message.contains(message), "{error}");
        }
        let costs: [(&[(&str, f64)], &str); 4] = [
            (&[("a", 1.0)], "group 'b' has no cost"),
            (&[("a", 1.0), ("b", 0.0)], "group 'b' has cost 0.0"),
            (&[("a", 1.0), ("b", f64::NAN)], "group 'b' has cost nan"),
            (&[("c", 1.0)], "costs names unknown group 'c'"),
        ];
        for (costs, message) in costs {
            let costs = costs.iter().map(|(name, cost)| (name.to_string(), *cost)).collect();
            let error =
                groups_of(&features, None, Some(&costs), "y", &none, false, &Conditions::default())
                    .unwrap_err();
            assert!(error.message.contains(message), "{error}");
        }
    }
}
