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
    let method = match given.text("method")?.unwrap_or_default().as_str() {
        "anytime_sequence" => Method::Anytime(anytime(&given)?),
        "foba" => Method::Foba(foba(&given)?),
        "backward" => {
            given.check("backward", BackwardOptions::NAMES)?;
            Method::Backward(backward(&given)?)
        }
        other => return Err(format!("there is no search '{other}'")),
    };
    let groups = given.pairs("groups", |values, name| {
        let (lists, texts) = Lists::new(values, name)?;
        let texts = Texts::new(&texts, name)?;
        Ok(Box::new(move |i| texts.all(lists.of(i))))
    })?;
    let costs = given.pairs("costs", |values, name| {
        let costs = leaf(name, values, Place::ROW).doubles(0..values.len())?.into_owned();
        let nulls = values.logical_nulls();
        let is_there = move |i: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
        Ok(Box::new(move |i| is_there(i).then(|| costs[i])))
    })?;
    Ok(Request { target: given.text("target")?.unwrap_or_default(), groups, costs, method })
}

fn anytime(given: &Given) -> Result<AnytimeOptions, String> {
    given.check("anytime_sequence", AnytimeOptions::NAMES)?;
    let default = AnytimeOptions::default();
    Ok(AnytimeOptions {
        rule: given.text("rule")?.map_or(Ok(default.rule), |name| Rule::of(&name))?,
        ridge: given.number("ridge")?.unwrap_or(default.ridge),
        scale: given.number("scale")?.map_or(default.scale, |scale| scale != 0.0),
        budget: given.number("budget")?,
        max_groups: given.count("max_groups")?,
        always: given.texts("always")?.unwrap_or_default(),
        c_min: given.number("c_min")?,
    })
}

fn foba(given: &Given) -> Result<FobaOptions, String> {
    given.check("foba", FobaOptions::NAMES)?;
    let default = FobaOptions::default();
    Ok(FobaOptions {
        backward: backward(given)?,
        epsilon: given.number("epsilon")?.unwrap_or(default.epsilon),
        nu: given.number("nu")?.unwrap_or(default.nu),
        rule: given.text("rule")?.map_or(Ok(default.rule), |name| Rule::of_foba(&name))?,
    })
}

fn backward(given: &Given) -> Result<BackwardOptions, String> {
    let default = BackwardOptions::default();
    let kind = given.text("backward")?;
    Ok(BackwardOptions {
        backward: kind.map_or(Ok(default.backward), |name| Usefulness::of(&name))?,
        max_steps: given.count("max_steps")?,
        ridge: given.number("ridge")?.unwrap_or(default.ridge),
        budget: given.number("budget")?,
        always: given.texts("always")?.unwrap_or_default(),
    })
}

/// What turns the number of an entry of a map into its value; nothing for a NULL.
type ValueOf<T> = Box<dyn Fn(usize) -> Option<T>>;

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
        match self.number(name)? {
            Some(number) if number.fract() != 0.0 => {
                let message = format!("{name} is {number}; it must be a whole number >= 1");
                Err(Error::argument(message).to_string())
            }
            number => Ok(number.map(|number| number as i64)),
        }
    }

    fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let Some(array) = self.column(name) else {
            return Ok(None);
        };
        let (lists, texts) = Lists::new(array, name)?;
        let texts = Texts::new(&texts, name)?;
        texts.all(lists.of(0)).map(Some).ok_or_else(|| null(name))
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
        let entry = |i| names.at(i).map(str::to_string).zip(value(i));
        let entries: Option<_> = (*start as usize..*end as usize).map(entry).collect();
        entries.map(Some).ok_or_else(|| null(name))
    }
}

fn null(name: &str) -> String {
    Error::argument(format!("{name} has a NULL; every name needs a value")).to_string()
}
