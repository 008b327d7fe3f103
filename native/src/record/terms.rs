//! How the columns of a table became those of a record, the field `terms` in JSON.
//!
//! A level that one of two tables has not seen, and the indicator of a value that is never
//! missing there, are columns of zeros: a record that lacks them merges exactly with one
//! that has them. `dbselect/record/union.py` is the same rule.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kernel::gaps::SUFFIX;

/// What a NULL of a category becomes by default.
pub const SKIP: &str = "skip";

/// Terms that are kept as they were read.
const MOST_KNOWN: usize = 16;

/// The terms of a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Columns whose levels became columns of 0 and 1.
    pub categories: Vec<Category>,
    /// Columns that became polynomials or splines.
    pub bases: Vec<Value>,
    /// Columns that count days or seconds, each with its unit.
    #[serde(default)]
    pub dates: Map<String, Value>,
    /// Columns of the record with a number where a value was missing, and that number.
    #[serde(default)]
    pub means: Map<String, Value>,
    /// Columns of the record with an indicator, 0 where a value was missing unless `means` has
    /// another number.
    #[serde(default)]
    pub indicators: Vec<String>,
    /// Fields whose plain names look like those of nested columns.
    #[serde(default)]
    pub flat: Vec<String>,
    /// Fields of sparse entries, which only Python reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Value>,
    /// Products and transforms of fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computed: Vec<Computed>,
    /// The formula that the terms were learnt for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// Of a pattern of gaps: columns that some of its rows had, and which it lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// Of a record that was completed by EM: how; its moments are no sums of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub em: Option<Value>,
}

/// A term of a formula, whose columns only Python and engines compute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Computed {
    /// Its name, and that of its default group.
    pub group: String,
    /// Its columns.
    pub names: Vec<String>,
    /// The columns of the table that they are computed of.
    pub of: Vec<String>,
    /// What they are products of.
    factors: Value,
}

/// A column whose levels became columns of 0 and 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Category {
    /// The column of the table.
    pub column: String,
    /// Texts, whole numbers or booleans, each with a column of its own.
    pub levels: Vec<Value>,
    /// Whether one more column is 1 for all other values.
    pub rest: bool,
    /// What becomes of a NULL.
    #[serde(default = "skip")]
    pub null_policy: String,
    /// Of models: the mean of each column of `names`, then of `missing`, over the rows of the fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Vec<f64>>,
    /// The level whose column is in no model: the others are compared with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Value>,
}

/// Categories are equal if the same columns come of them; shares describe the rows of one fit.
impl PartialEq for Category {
    fn eq(&self, other: &Category) -> bool {
        self.column == other.column
            && self.levels == other.levels
            && self.rest == other.rest
            && self.null_policy == other.null_policy
            && self.reference == other.reference
    }
}

fn skip() -> String {
    SKIP.to_string()
}

impl Category {
    /// The names of the columns: one a level, then that of all other values.
    pub fn names(&self) -> Vec<String> {
        let name = |text: &str| [&self.column, ".", text].concat();
        let of_level = |level: &Value| match level {
            Value::String(text) => name(text),
            other => name(&text_of(other)),
        };
        let mut names: Vec<String> = self.levels.iter().map(of_level).collect();
        if self.rest {
            let texts: Vec<String> = self.levels.iter().map(text_of).collect();
            names.push(name(&apart("other", &texts)));
        }
        names
    }

    /// The name of the column of what is missing, where that is one more level.
    pub fn missing(&self) -> String {
        let texts: Vec<String> = self.levels.iter().map(text_of).collect();
        format!("{}.{}", self.column, apart("missing", &texts))
    }

    /// The column of the reference level.
    pub fn reference_name(&self) -> Option<String> {
        let level = self.reference.as_ref()?;
        Some(format!("{}.{}", self.column, text_of(level)))
    }

    fn union(&self, other: &Category) -> Result<Category, String> {
        let what = || format!("levels of '{}'", self.column);
        if self == other {
            return Ok(Category { shares: None, ..self.clone() });
        }
        if self.reference != other.reference {
            let what = format!("reference of '{}'", self.column);
            return Err(unequal(&what, &self.reference, &other.reference));
        }
        if self.null_policy != other.null_policy {
            let what = format!("null_policy of '{}'", self.column);
            return Err(unequal(&what, &self.null_policy, &other.null_policy));
        }
        if self.rest || other.rest || self.levels == other.levels {
            return Err(unequal(&what(), &self.names(), &other.names())
                + "; where one column stands for all other levels, both need the same: read \
                   the tables with the same terms");
        }
        let mut levels = self.levels.clone();
        levels.extend(other.levels.iter().filter(|level| !self.levels.contains(level)).cloned());
        let kinds: HashSet<u8> = levels.iter().map(kind).collect();
        if kinds.len() > 1 {
            return Err(unequal(&what(), &self.levels, &other.levels));
        }
        levels.sort_by(|a, b| match (a, b) {
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (a, b) => integer(a).cmp(&integer(b)),
        });
        Ok(Category { levels, shares: None, ..self.clone() })
    }

    /// The columns that may have a share: those of the levels, then that of what is missing.
    fn shared(&self) -> Vec<String> {
        let mut names = self.names();
        names.push(self.missing());
        names
    }

    fn check_shares(&self) -> Result<(), String> {
        let Some(shares) = &self.shares else { return Ok(()) };
        let needed = self.shared().len();
        match shares.len() == needed && shares.iter().all(|share| share.is_finite()) {
            true => Ok(()),
            false => Err(format!("shares of '{}' that are not {needed} numbers", self.column)),
        }
    }
}

/// The text of a level.
pub fn text_of(level: &Value) -> String {
    match level {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn kind(level: &Value) -> u8 {
    match level {
        Value::String(_) => 0,
        Value::Bool(_) => 1,
        _ => 2,
    }
}

/// The number of a level that is one.
pub fn integer(level: &Value) -> i128 {
    let signed = level.as_i64().map(i128::from);
    signed.or(level.as_u64().map(i128::from)).unwrap_or_default()
}

/// A name that is no level's.
fn apart(name: &str, texts: &[String]) -> String {
    let mut name = name.to_string();
    while texts.contains(&name) {
        name.push('_');
    }
    name
}

impl Terms {
    /// Whether all columns are taken as they are.
    pub fn is_empty(&self) -> bool {
        *self == Terms::default()
    }

    /// The terms as JSON; nothing if there are none.
    pub fn to_json(&self) -> Option<String> {
        // Plain data: no map has keys that are no text.
        (!self.is_empty()).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// The terms of a model as JSON: with the mean of each column of a category in a record.
    ///
    /// `mean` gives the mean of the record's column of a number.
    pub fn of_model(&self, columns: &[String], mean: impl Fn(usize) -> f64) -> Option<String> {
        if self.categories.is_empty() {
            return self.to_json();
        }
        let places: HashMap<&str, usize> =
            columns.iter().enumerate().map(|(at, name)| (&name[..], at)).collect();
        let share = |name: String| places.get(&name[..]).map_or(0.0, |&at| mean(at));
        let with_shares = |one: &Category| Category {
            shares: Some(one.shared().into_iter().map(share).collect()),
            ..one.clone()
        };
        let categories = self.categories.iter().map(with_shares).collect();
        Terms { categories, ..self.clone() }.to_json()
    }

    /// Whether a column is that of a level which rows of the same table could have.
    pub fn may_have_level(&self, name: &str) -> bool {
        let is_of = |one: &Category| {
            let level = name.strip_prefix(&one.column[..]);
            !one.rest && level.is_some_and(|level| level.starts_with('.'))
        };
        self.categories.iter().any(is_of)
    }

    /// What a column has where a value was missing, beside an indicator.
    pub fn fill(&self, name: &str) -> f64 {
        self.means.get(name).and_then(Value::as_f64).unwrap_or_default()
    }

    /// Whether a column with an indicator has another number than 0 where a value was missing.
    pub fn has_fills(&self) -> bool {
        !self.means.is_empty() && self.indicators.iter().any(|name| self.means.contains_key(name))
    }

    /// The means of columns without indicators.
    fn plain_means(&self) -> Map<String, Value> {
        let is_plain = |(name, _): &(&String, &Value)| !self.indicators.contains(name);
        let copy = |(name, mean): (&String, &Value)| (name.clone(), mean.clone());
        self.means.iter().filter(is_plain).map(copy).collect()
    }

    /// The columns that come of a column, where it is no plain number.
    pub fn blocks(&self) -> HashMap<&str, Vec<String>> {
        let category = |one: &Category| [one.names(), vec![one.missing()]].concat();
        let categories = self.categories.iter().map(|one| (&one.column[..], category(one)));
        let marked = |name: &String| vec![name.clone(), format!("{name}{SUFFIX}")];
        categories.chain(self.indicators.iter().map(|name| (&name[..], marked(name)))).collect()
    }

    /// Columns that are 0 in every row of a record of these terms if it lacks them.
    pub fn zeros(&self, joint: &Terms) -> HashSet<String> {
        let seen: HashSet<String> = self.categories.iter().flat_map(Category::names).collect();
        let made = joint.categories.iter().flat_map(|one| [one.names(), vec![one.missing()]]);
        let marks = joint.indicators.iter().map(|name| format!("{name}{SUFFIX}"));
        made.flatten().filter(|name| !seen.contains(name)).chain(marks).collect()
    }

    /// Terms of the columns of two records of one table, each of some of its columns.
    pub fn beside(&self, other: &Terms) -> Result<Terms, String> {
        let (mut own, mut others) = (self.clone(), other.clone());
        own.adopt(other);
        others.adopt(self);
        own.union(&others)
    }

    /// Take what other terms say of columns that these do not know.
    fn adopt(&mut self, other: &Terms) {
        fn missing<T: PartialEq + Clone>(own: &mut Vec<T>, others: &[T]) {
            let more: Vec<T> = others.iter().filter(|one| !own.contains(one)).cloned().collect();
            own.extend(more);
        }
        let new = |one: &&Category| !self.categories.iter().any(|own| own.column == one.column);
        let categories: Vec<Category> = other.categories.iter().filter(new).cloned().collect();
        self.categories.extend(categories);
        self.categories.sort_by(|a, b| a.column.cmp(&b.column));
        missing(&mut self.bases, &other.bases);
        missing(&mut self.computed, &other.computed);
        self.bases.sort_by_key(Value::to_string);
        self.computed.sort_by(|a, b| a.names.cmp(&b.names));
        missing(&mut self.flat, &other.flat);
        for (own, others) in [(&mut self.dates, &other.dates), (&mut self.means, &other.means)] {
            for (name, value) in others {
                own.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// Terms with the levels and indicators of both.
    fn union(&self, other: &Terms) -> Result<Terms, String> {
        let columns = |terms: &Terms| -> Vec<String> {
            terms.categories.iter().map(|one| one.column.clone()).collect()
        };
        let (own, others) = (columns(self), columns(other));
        let place = |column: &String| others.iter().position(|other| other == column);
        if own.len() != others.len() || own.iter().any(|column| place(column).is_none()) {
            return Err(unequal("categories", &own, &others));
        }
        if self.bases != other.bases {
            return Err(unequal("bases", &self.bases, &other.bases));
        }
        if self.computed != other.computed {
            return Err(unequal("computed", &self.computed, &other.computed));
        }
        if let Some((name, [own, others])) = odd(&self.dates, &other.dates) {
            let unit = |unit: Option<&Value>| match unit.and_then(Value::as_str) {
                Some("days") => "a date",
                Some(_) => "a timestamp",
                None => "a number",
            };
            return Err(format!(
                "gram records differ in column '{name}': it is {} in the first, {} in the second; \
                 cast it to one type",
                unit(own),
                unit(others)
            ));
        }
        let (means, others_means) = (self.plain_means(), other.plain_means());
        if let Some((name, [own, others])) = odd(&means, &others_means) {
            let shown = |mean: Option<&Value>| mean.map_or("none".to_string(), Value::to_string);
            return Err(format!(
                "gram records have unequal means where values were missing: of '{name}' {} in the \
                 first, {} in the second; read the tables with the terms of one, or with \
                 indicators, which gram_impute fills",
                shown(own),
                shown(others)
            ));
        }
        if self.em != other.em {
            return Err(
                "gram records completed by EM do not add up; merge the patterns that they \
                        were made of"
                    .to_string(),
            );
        }
        let is_flat = |of: &Terms, name: &String| of.flat.contains(name);
        if !(self.flat.iter().all(|name| is_flat(other, name))
            && other.flat.iter().all(|name| is_flat(self, name)))
        {
            return Err(unequal("flat", &self.flat, &other.flat));
        }
        let both = self.categories.iter().zip(own.iter().filter_map(place));
        let categories = both.map(|(one, at)| one.union(&other.categories[at]));
        let more = other.indicators.iter().filter(|name| !self.indicators.contains(name));
        let lost = other.dropped.iter().filter(|name| !self.dropped.contains(name));
        Ok(Terms {
            dropped: self.dropped.iter().chain(lost).cloned().collect(),
            categories: categories.collect::<Result<_, _>>()?,
            indicators: self.indicators.iter().chain(more).cloned().collect(),
            means,
            ..self.clone()
        })
    }
}

thread_local! {
    /// No terms.
    static NONE: Arc<Terms> = Arc::default();
    /// The terms that were read last, the latest first: a column of records has few.
    static LAST: RefCell<Vec<(String, Arc<Terms>)>> = RefCell::default();
}

/// The terms of columns that are taken as they are.
pub fn none() -> Arc<Terms> {
    NONE.with(Arc::clone)
}

/// Read the field `terms` of a record or a sequence; NULL is none.
///
/// The error is the end of a sentence: what has terms that are none.
pub fn read(json: Option<&str>) -> Result<Arc<Terms>, String> {
    let Some(json) = json else { return Ok(none()) };
    LAST.with_borrow_mut(|last| {
        match last.iter().position(|known| known.0 == json) {
            Some(at) => last[..=at].rotate_right(1),
            None => {
                let terms: Terms = serde_json::from_str(json)
                    .map_err(|error| format!("terms that are none: {error}"))?;
                terms.categories.iter().try_for_each(Category::check_shares)?;
                last.truncate(MOST_KNOWN - 1);
                last.insert(0, (json.to_string(), Arc::new(terms)));
            }
        }
        Ok(last[0].1.clone())
    })
}

/// Terms as JSON, written once for a run of records that share them.
#[derive(Default)]
pub struct Written(Option<(Arc<Terms>, Option<String>)>);

impl Written {
    /// The JSON of some terms; nothing if there are none.
    pub fn json(&mut self, terms: &Arc<Terms>) -> Option<&str> {
        let known = self.0.take().filter(|(known, _)| Arc::ptr_eq(known, terms));
        let (_, json) = self.0.insert(known.unwrap_or_else(|| (terms.clone(), terms.to_json())));
        json.as_deref()
    }
}

/// The columns of two records together, in the order of the first, and their terms, but for
/// the numbers that stand where values are missing beside indicators.
pub fn union(
    columns: &[String],
    terms: &Terms,
    others: &[String],
    other_terms: &Terms,
) -> Result<(Vec<String>, Terms), String> {
    let joint = terms.union(other_terms)?;
    let (columns, others) =
        (&marked(columns, terms, &joint)[..], &marked(others, other_terms, &joint)[..]);
    let (one, two) = (heads(&joint, columns), heads(&joint, others));
    // Of two orders the lesser, so that it does not matter which record comes first.
    let follows = |these: &[String], those: &[String]| {
        let kept = those.iter().filter(|head| these.contains(head));
        kept.eq(these.iter().filter(|head| those.contains(head)))
    };
    let (one, two) = if follows(&one, &two) || one < two { (one, two) } else { (two, one) };
    let mut order = one.clone();
    for (at, head) in two.iter().enumerate() {
        if !order.contains(head) {
            let before = |k: usize| order.iter().position(|other| *other == two[k]);
            let place = at.checked_sub(1).and_then(before).map_or(0, |place| place + 1);
            order.insert(place, head.clone());
        }
    }
    let every: HashSet<&String> = columns.iter().chain(others).collect();
    let blocks = joint.blocks();
    let own = |head: &String| blocks.get(&head[..]).cloned().unwrap_or_else(|| vec![head.clone()]);
    let found: Vec<String> =
        order.iter().flat_map(own).filter(|name| every.contains(name)).collect();
    let only_zeros = |names: &[String], terms: &Terms| {
        let zeros = terms.zeros(&joint);
        every.iter().all(|name| names.contains(name) || zeros.contains(*name))
    };
    if only_zeros(columns, terms) && only_zeros(others, other_terms) {
        return Ok((found, joint));
    }
    // Levels that only one has are not the cause.
    let (one, two) = (heads(&joint, columns), heads(&joint, others));
    let same = one.iter().all(|head| two.contains(head)) && one.len() == two.len();
    Err(if same { difference(columns, others) } else { difference(&one, &two) })
}

/// The columns of a record as they are called beside the levels of others: that of what is
/// missing in a category gives way to a level of its name.
pub fn marked(columns: &[String], own: &Terms, joint: &Terms) -> Vec<String> {
    let has_mark = |one: &&Category| one.null_policy == "indicator";
    let renamed: HashMap<String, String> = own
        .categories
        .iter()
        .filter(has_mark)
        .filter_map(|one| {
            let other = joint.categories.iter().find(|other| other.column == one.column)?;
            Some((one.missing(), other.missing()))
        })
        .collect();
    columns.iter().map(|name| renamed.get(name).unwrap_or(name).clone()).collect()
}

/// The columns of the table that the columns of a record come from, each once.
pub fn heads(terms: &Terms, columns: &[String]) -> Vec<String> {
    let of = sources(terms);
    let mut met = HashSet::new();
    let heads = columns.iter().map(|name| of.get(name).unwrap_or(name));
    heads.filter(|head| met.insert(*head)).cloned().collect()
}

/// The column that each column of a record comes from, where it is another.
pub fn sources(terms: &Terms) -> HashMap<String, String> {
    let blocks = terms.blocks().into_iter();
    blocks
        .flat_map(|(head, names)| names.into_iter().map(move |name| (name, head.to_string())))
        .collect()
}

/// A name that two maps do not have alike, and what each has.
fn odd<'m>(
    one: &'m Map<String, Value>,
    two: &'m Map<String, Value>,
) -> Option<(&'m String, [Option<&'m Value>; 2])> {
    let names = one.keys().chain(two.keys());
    let mut both = names.map(|name| (name, [one.get(name), two.get(name)]));
    both.find(|(_, [own, other])| own != other)
}

fn unequal<T: Serialize + ?Sized>(what: &str, one: &T, two: &T) -> String {
    let shown = |these: &T| serde_json::to_string(these).unwrap_or_default();
    let (one, two) = (shown(one), shown(two));
    format!("gram records have unequal {what}: {one} in the first, {two} in the second")
}

/// Show where two lists of columns differ.
pub fn difference(a: &[String], b: &[String]) -> String {
    let only = |these: &[String], those: &[String]| {
        let names: Vec<String> = these
            .iter()
            .filter(|name| !those.contains(name))
            .map(|name| format!("'{name}'"))
            .collect();
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    };
    let (first, second) = (only(a, b), only(b, a));
    format!(
        "gram records have unequal columns; only in the first: {first}; only in the second: {second}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category(levels: &[&str], shares: Option<Vec<f64>>) -> Category {
        let levels = levels.iter().map(|level| Value::from(*level)).collect();
        let (column, null_policy) = ("k".to_string(), SKIP.to_string());
        Category { column, levels, rest: false, null_policy, shares, reference: None }
    }

    #[test]
    fn the_terms_of_a_model_have_the_mean_of_each_column_of_a_category() {
        let terms = Terms { categories: vec![category(&["a", "b"], None)], ..Terms::default() };
        let columns = ["y", "k.b", "k.a", "k.missing"].map(str::to_string);
        let json = terms.of_model(&columns, |at| at as f64 / 8.0).unwrap();
        let found = read(Some(&json)).unwrap();
        assert_eq!(found.categories[0].shares, Some(vec![0.25, 0.125, 0.375]));
        // They describe the rows of one fit, and records have none.
        assert_eq!(*found, terms);
        assert!(!terms.to_json().unwrap().contains("shares"));
        let (_, joint) = union(&columns, &found, &columns, &found).unwrap();
        assert!(!joint.to_json().unwrap().contains("shares"));
    }

    #[test]
    fn shares_of_other_columns_are_refused() {
        for shares in [vec![0.5, 0.5], vec![], vec![0.5; 4]] {
            let categories = vec![category(&["a", "b"], Some(shares))];
            let json = Terms { categories, ..Terms::default() }.to_json().unwrap();
            assert_eq!(read(Some(&json)).unwrap_err(), "shares of 'k' that are not 3 numbers");
        }
    }
}
