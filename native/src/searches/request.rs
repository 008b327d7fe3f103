//! Requests in Arrow: the options of a search, by name.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};

use super::records::{Lists, Texts};
use crate::arrow::{Place, leaf};
use crate::search::error::Error;
use crate::search::nearest::unknown;
use crate::search::options::{AnytimeOptions, BackwardOptions, FobaOptions, Rule, Usefulness};
use crate::search::setup::{Method, Request};

/// A request, by the names of its options: the only row of a table.
///
/// What is NULL, or no column, has its default.
pub fn read_request(row: &StructArray) -> Result<Request, String> {
    let given = Given(row);
    let text = |name| given.text(name);
    let method = text("method")?.unwrap_or_default();
    let names = match method.as_str() {
        "anytime_sequence" => AnytimeOptions::NAMES,
        "foba" => FobaOptions::NAMES,
        "backward" => BackwardOptions::NAMES,
        other => return Err(format!("there is no search '{other}'")),
    };
    given.check(&method, names).map_err(|error| error.to_string())?;
    let always = given.texts("always")?.unwrap_or_default();
    let backward = || -> Result<BackwardOptions, String> {
        let default = BackwardOptions::default();
        let kind = text("backward")?.map(|name| Usefulness::of(&name)).transpose();
        Ok(BackwardOptions {
            backward: kind.map_err(|error| error.to_string())?.unwrap_or(default.backward),
            max_steps: given.count("max_steps")?,
            ridge: given.number("ridge")?.unwrap_or(default.ridge),
            budget: given.number("budget")?,
            always: always.clone(),
        })
    };
    let rule = |of: fn(&str) -> Result<Rule, Error>| -> Result<Rule, String> {
        let rule = text("rule")?.map(|name| of(&name)).transpose();
        Ok(rule.map_err(|error| error.to_string())?.unwrap_or_default())
    };
    let method = match method.as_str() {
        "anytime_sequence" => {
            let default = AnytimeOptions::default();
            Method::Anytime(AnytimeOptions {
                rule: rule(Rule::of)?,
                ridge: given.number("ridge")?.unwrap_or(default.ridge),
                scale: given.number("scale")?.map_or(default.scale, |scale| scale != 0.0),
                budget: given.number("budget")?,
                max_groups: given.count("max_groups")?,
                always: always.clone(),
                c_min: given.number("c_min")?,
            })
        }
        "foba" => {
            let default = FobaOptions::default();
            Method::Foba(FobaOptions {
                backward: backward()?,
                epsilon: given.number("epsilon")?.unwrap_or(default.epsilon),
                nu: given.number("nu")?.unwrap_or(default.nu),
                rule: rule(Rule::of_foba)?,
            })
        }
        _ => Method::Backward(backward()?),
    };
    Ok(Request {
        target: text("target")?.unwrap_or_default(),
        groups: given.pairs("groups", |values, name| {
            let (lists, texts) = Lists::new(values, name)?;
            let texts = Texts::new(&texts, name)?;
            Ok(Box::new(move |i| {
                lists.of(i).filter_map(|i| texts.at(i)).map(str::to_string).collect()
            }))
        })?,
        costs: given.pairs("costs", |values, name| {
            let costs = leaf(name, values, Place::ROW).doubles(0..values.len())?.into_owned();
            Ok(Box::new(move |i| costs[i]))
        })?,
        method,
    })
}

/// What turns the number of an entry of a map into its value.
type ValueOf<T> = Box<dyn Fn(usize) -> T>;

/// What every search takes besides its options.
const ALWAYS: [&str; 4] = ["method", "target", "groups", "costs"];

/// Options by name.
struct Given<'r>(&'r StructArray);

impl Given<'_> {
    /// Refuse options that a method does not have.
    fn check(&self, method: &str, names: &[&str]) -> Result<(), Error> {
        let known = |name: &str| ALWAYS.contains(&name) || names.contains(&name);
        let mut given = self.0.fields().iter().map(|field| field.name().as_str());
        let Some(name) = given.find(|name| !known(name) && self.column(name).is_some()) else {
            return Ok(());
        };
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let unknown = unknown("option", name, &names);
        Err(Error::argument(format!("{method} has {unknown}")))
    }

    fn column(&self, name: &str) -> Option<&ArrayRef> {
        self.0.column_by_name(name).filter(|array| array.len() == 1 && array.is_valid(0))
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        let Some(array) = self.column(name) else {
            return Ok(None);
        };
        Ok(Texts::new(array, name)?.at(0).map(str::to_string))
    }

    fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let Some(array) = self.column(name) else {
            return Ok(None);
        };
        Ok(leaf(name, array, Place::ROW).doubles(0..1)?.first().copied())
    }

    fn count(&self, name: &str) -> Result<Option<i64>, String> {
        Ok(self.number(name)?.map(|number| number as i64))
    }

    fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let Some(array) = self.column(name) else {
            return Ok(None);
        };
        let (lists, texts) = Lists::new(array, name)?;
        let texts = Texts::new(&texts, name)?;
        Ok(Some(lists.of(0).filter_map(|i| texts.at(i)).map(str::to_string).collect()))
    }

    /// The entries of a map, in their order.
    fn pairs<T>(
        &self,
        name: &str,
        values: impl Fn(&ArrayRef, &str) -> Result<ValueOf<T>, String>,
    ) -> Result<Option<Vec<(String, T)>>, String> {
        let Some(array) = self.column(name) else {
            return Ok(None);
        };
        let map = array
            .as_map_opt()
            .ok_or_else(|| format!("'{name}' has type {}; a map is needed", array.data_type()))?;
        let (names, value) = (Texts::new(map.keys(), name)?, values(map.values(), name)?);
        let [start, end] = map.value_offsets() else {
            return Ok(None);
        };
        let entry = |i| names.at(i).map(|name| (name.to_string(), value(i)));
        Ok(Some((*start as usize..*end as usize).filter_map(entry).collect()))
    }
}
