//! A sequence as the record that Python stores: `GLM_TYPE` in `dbselect/results/glm/store.py`, so
//! that what reads one reads the other.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};

use super::answer::{aliased, fixed, optional, terms_json, text, texts};
use super::levels::Levels;
use super::model::Start;
use super::request::Request;
use super::rows::Rows;
use super::sequence::{Prefix, Sequence};
use crate::linear::groups::Groups;
use crate::methods::answer::{Cell, Type};
use crate::search::steps::{Choice, Stop};
use crate::words::value::Value;

/// A step, and what else it has.
macro_rules! step_type {
    ($($more:expr),*) => {
        Type::Struct(&[
            ("step", Type::Whole),
            ("action", Type::Text),
            ("group", Type::Text),
            ("cost", Type::Number),
            ("spent", Type::Number),
            ("score", Type::Number),
            ("gain", Type::Number),
            ("explained", Type::Number),
            ("r2", Type::Number),
            ("useful", Type::Truth),
            $($more),*
        ])
    };
}

/// A step of one linear predictor, as those of a linear sequence.
static PREDICTOR_STEP: Type = step_type!(
    ("intercept", Type::Number),
    ("coefficients", Type::Coefficients),
    ("terms", Type::Text)
);
/// A step without its model.
static STEP: Type =
    step_type!(("deviance", Type::Number), ("status", Type::Text), ("passes", Type::Whole));
static GROUP: Type = Type::Struct(&[
    ("name", Type::Text),
    ("columns", Type::List(&Type::Text)),
    ("cost", Type::Number),
]);
static PREDICTOR: Type =
    Type::Struct(&[("class", Type::Text), ("sequence", Type::List(&PREDICTOR_STEP))]);
/// A sequence of generalised linear models.
pub static SEQUENCE_GLM: Type = Type::Struct(&[
    ("target", Type::Text),
    ("family", Type::Text),
    ("class_type", Type::Text),
    ("levels", Type::List(&Type::Text)),
    ("offset", Type::Text),
    ("exposure", Type::Text),
    ("problem", Type::Text),
    ("rule", Type::Text),
    ("groups", Type::List(&GROUP)),
    ("unused", Type::List(&Type::Text)),
    ("choices", Type::List(&Type::Text)),
    ("aliased", Type::List(&Type::Text)),
    ("stop", Type::Text),
    ("rows", Type::Whole),
    ("skipped", Type::Whole),
    ("rows_searched", Type::Whole),
    ("passes", Type::Whole),
    ("rows_read", Type::Whole),
    ("bytes_read", Type::Whole),
    ("steps", Type::List(&STEP)),
    ("predictors", Type::List(&PREDICTOR)),
]);

/// A sequence as a record.
pub fn sequence(
    request: &Request,
    rows: &Rows,
    start: &Start,
    groups: &Groups,
    levels: &Levels,
    found: &Sequence,
) -> Cell<'static> {
    let members = |group: usize| &groups.members[groups.starts[group]..groups.starts[group + 1]];
    let group = |group: usize| {
        Cell::List(vec![
            text(&groups.names[group]),
            texts(members(group)),
            Cell::Number(groups.costs[group]),
        ])
    };
    let used: HashSet<&String> = groups.members.iter().collect();
    let unused = rows.columns.iter().filter(|name| !used.contains(name));
    let own = |number: usize| step_cells(groups, start, found, number);
    let plain = |(number, prefix): (usize, &Prefix)| {
        let mut cells = own(number);
        cells.push(Cell::Number(prefix.fit.model.deviance));
        cells.push(text(prefix.fit.status.name()));
        cells.push(Cell::Whole(prefix.fit.steps as i64));
        Cell::List(cells)
    };
    let whole = |(number, prefix): (usize, &Prefix)| {
        let mut cells = own(number);
        let mut entries = fixed(request);
        let columns = prefix.fit.columns.iter().zip(&prefix.coefficients);
        entries.extend(columns.map(|(&j, w)| (Cow::Owned(groups.members[j].clone()), *w)));
        cells.push(Cell::Number(prefix.intercept));
        cells.push(Cell::Map(entries));
        cells.push(if number == 0 { terms_json(request, rows, start) } else { Cell::Null });
        Cell::List(cells)
    };
    let numbered = || found.prefixes.iter().enumerate();
    let passes = found.prefixes.iter().map(|prefix| prefix.fit.steps as i64).sum();
    let choices = found.steps.iter().map(|step| text(Choice::NAMES[step.choice as usize]));
    let last = found.prefixes.last().map_or(Cell::List(Vec::new()), |prefix| {
        aliased(&groups.members, &prefix.fit.columns, &prefix.precision)
    });
    let predictor = Cell::List(vec![
        optional(levels.names.last()),
        Cell::List(numbered().map(whole).collect()),
    ]);
    Cell::List(vec![
        text(&request.target),
        Cell::Text(Cow::Owned(request.family.text())),
        levels.kind.map_or(Cell::Null, text),
        texts(&levels.names),
        optional(request.offset.as_ref()),
        optional(request.exposure.as_ref()),
        Cell::Text(Cow::Owned(call_json(request))),
        text("fr"),
        Cell::List((0..groups.names.len()).map(group).collect()),
        texts(unused),
        Cell::List(choices.collect()),
        last,
        text(Stop::NAMES[found.stop as usize]),
        Cell::Whole(start.n_rows),
        Cell::Whole(rows.skipped() as i64),
        Cell::Null,
        Cell::Whole(passes),
        Cell::Whole(start.n_rows),
        Cell::Whole(0),
        Cell::List(numbered().map(plain).collect()),
        Cell::List(vec![predictor]),
    ])
}

/// The fields of a step that are not of its model.
fn step_cells(
    groups: &Groups,
    start: &Start,
    found: &Sequence,
    number: usize,
) -> Vec<Cell<'static>> {
    let prefix = &found.prefixes[number];
    let step = number.checked_sub(1).map(|at| &found.steps[at]);
    let own = |of: &dyn Fn(usize) -> Cell<'static>| step.map_or(Cell::Null, |step| of(step.group));
    vec![
        Cell::Whole(number as i64),
        text(if number == 0 { "start" } else { "add" }),
        own(&|group| text(&groups.names[group])),
        Cell::Number(step.map_or(0.0, |step| match groups.rules {
            None => groups.costs[step.group],
            Some(_) => found.spent[number] - found.spent[number - 1],
        })),
        Cell::Number(found.spent[number]),
        step.map_or(Cell::Null, |step| Cell::Number(step.score)),
        Cell::Number(step.map_or(0.0, |step| step.gain)),
        Cell::Number(prefix.fit.explained),
        Cell::Number(1.0 - prefix.fit.model.deviance / start.problem.null_deviance),
        Cell::Truth(step.is_none_or(|step| step.is_useful())),
    ]
}

/// The problem as `Call.to_json` in `dbselect/results/call.py` writes it.
fn call_json(request: &Request) -> String {
    let mut problem = Map::new();
    problem.insert("target".to_string(), json!(request.target));
    let mut put = |name: &str, value: Option<Json>| {
        if let Some(value) = value {
            problem.insert(name.to_string(), value);
        }
    };
    let family = request.family.text();
    put("family", (family != "gaussian").then(|| json!(family)));
    put("weight", request.weight.as_ref().map(|name| json!(name)));
    put("offset", request.offset.as_ref().map(|name| json!(name)));
    put("exposure", request.exposure.as_ref().map(|name| json!(name)));
    put(
        "positive",
        request.positive.as_ref().map(|value| match value {
            Value::Truth(truth) => json!(truth),
            Value::Whole(number) => json!(number),
            Value::Number(number) => json!(number),
            other => json!(other.to_string().trim_matches('\'')),
        }),
    );
    let fields = &request.fields;
    put("intercept", (!fields.intercept).then(|| json!(false)));
    put("ridge", (fields.ridge != 0.0).then(|| json!(fields.ridge)));
    put("scale", (!fields.scale).then(|| json!(false)));
    put("always", (!fields.always.is_empty()).then(|| json!(fields.always)));
    for (name, value) in fields.told.to_json() {
        put(name, Some(value));
    }
    let named = |pairs: Vec<(String, Json)>| Json::Object(pairs.into_iter().collect());
    let groups = request.groups.as_ref().map(|groups| {
        named(groups.iter().map(|(name, columns)| (name.clone(), json!(columns))).collect())
    });
    let costs = request
        .costs
        .as_ref()
        .map(|costs| named(costs.iter().map(|(name, cost)| (name.clone(), json!(cost))).collect()));
    problem.insert("groups".to_string(), groups.unwrap_or(Json::Null));
    problem.insert("costs".to_string(), costs.unwrap_or(Json::Null));
    let mut options = Map::new();
    if let Some(budget) = request.budget {
        options.insert("budget".to_string(), json!(budget));
    }
    if let Some(most) = request.max_groups {
        options.insert("max_groups".to_string(), json!(most));
    }
    let problem = Json::Object(problem);
    json!({"problem": problem, "method": "anytime_sequence", "options": options, "of_gram": false})
        .to_string()
}
