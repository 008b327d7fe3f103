//! What is answered of kept rows: models, their terms, and sequences, as values of declared types.
//!
//! A sequence is that of `GLM_TYPE` in `dbselect/results/glm/store.py`, so that what reads one
//! reads the other.

use std::borrow::Cow;

use serde_json::{Map, Value as Json, json};

use super::intake::Intake;
use super::model::{Precision, Start, in_units, note, precision, start};
use super::newton::Fit;
use super::normal;
use super::request::Request;
use super::rows::{Classes, Rows};
use super::sequence::{Prefix, Sequence, search};
use crate::record::kept::Kept;
use crate::search::error::Error;
use crate::search::groups::{Groups, groups_of};
use crate::search::linear::columns::match_columns;
use crate::search::linear::inference::INTERCEPT;
use crate::search::methods::answer::{Cell, Type};
use crate::search::setup::check_first;
use crate::search::steps::{Choice, Stop};
use crate::search::value::Value;

/// A generalised linear model.
pub static FIT_GLM: Type = Type::Struct(&[
    ("family", Type::Text),
    ("link", Type::Text),
    ("target", Type::Text),
    ("levels", Type::List(&Type::Text)),
    ("intercept", Type::Number),
    ("coefficients", Type::Coefficients),
    ("std_errors", Type::Coefficients),
    ("deviance", Type::Number),
    ("null_deviance", Type::Number),
    ("explained", Type::Number),
    ("dispersion", Type::Number),
    ("rows", Type::Whole),
    ("skipped", Type::Whole),
    ("iterations", Type::Whole),
    ("status", Type::Text),
    ("aliased", Type::List(&Type::Text)),
    ("note", Type::Text),
    ("terms", Type::Text),
]);
/// Its coefficients with their tests, a term an element.
pub static SUMMARY_GLM: Type = Type::List(&Type::Struct(&[
    ("term", Type::Text),
    ("estimate", Type::Number),
    ("std_error", Type::Number),
    ("statistic", Type::Number),
    ("p_value", Type::Number),
    ("low", Type::Number),
    ("high", Type::Number),
]));
/// A step of one linear predictor, as those of a linear sequence.
static PREDICTOR_STEP: Type = Type::Struct(&[
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
    ("intercept", Type::Number),
    ("coefficients", Type::Coefficients),
    ("terms", Type::Text),
]);
/// A step without its model.
static STEP: Type = Type::Struct(&[
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
    ("deviance", Type::Number),
    ("status", Type::Text),
    ("passes", Type::Whole),
]);
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

/// The two levels of a target, that which counts as 0 first, and the type that Python has of them.
struct Levels {
    names: Vec<String>,
    kind: Option<&'static str>,
    classes: Classes,
}

/// What some kept rows answer; nothing if there is no model of them.
pub fn answer(intake: &Intake, kept: &Kept, threads: usize) -> Result<Cell<'static>, String> {
    let request = &*intake.request;
    if kept.rows() == 0 {
        return Ok(Cell::Null);
    }
    let Some(levels) = levels_of(intake, kept)? else { return Ok(Cell::Null) };
    let classes = levels.classes.clone();
    let rows = Rows::new(kept, &intake.roles, request.family, &intake.base, classes, threads);
    let wrong = |error: Error| error.message;
    if request.method.name == "anytime_sequence_glm" {
        let (groups, costs) = (request.groups.as_ref(), request.costs.as_ref());
        let groups = groups_of(&rows.columns, groups, costs, &request.target, &rows.terms, false);
        let groups = groups.map_err(wrong)?;
        let always = groups.numbers(&request.fields.always).map_err(wrong)?;
        let most = request.max_groups.and_then(|most| i64::try_from(most).ok());
        check_first(&groups, &always, request.budget, most).map_err(wrong)?;
        let Ok(start) = start(request, &rows, places(&rows, &groups.members))? else {
            return Ok(Cell::Null);
        };
        let found = search(request, &start, &groups, &always)?;
        return Ok(sequence(request, &rows, &start, &groups, &levels, &found));
    }
    let members = match &request.columns {
        None => rows.columns.clone(),
        Some(patterns) => match_columns(patterns, &rows.columns, "columns").map_err(wrong)?,
    };
    // Columns of a field stand side by side, as groups of fields have them.
    let members = groups_of(&members, None, None, &request.target, &rows.terms, false);
    let members = members.map_err(wrong)?.members;
    let Ok(start) = start(request, &rows, places(&rows, &members))? else {
        return Ok(Cell::Null);
    };
    let every: Vec<usize> = (0..members.len()).collect();
    let null = &start.null;
    let point =
        super::newton::Point { intercept: null.point.intercept, coef: vec![0.0; members.len()] };
    let model = start.problem.expand(&every, &point)?;
    let fit = start.problem.descend(every, point, model)?;
    let known = precision(request, &start, &fit);
    Ok(match request.method.name {
        "summary_glm" => summary(request, &start, &members, &fit, &known),
        _ => model_of(request, &rows, &start, &members, &levels, &fit, &known),
    })
}

/// The numbers of some columns among those of the rows.
fn places(rows: &Rows, members: &[String]) -> Vec<usize> {
    let place = |name: &String| rows.columns.iter().position(|column| column == name);
    members.iter().filter_map(place).collect()
}

/// What the values of the target count as; nothing if there is only one.
fn levels_of(intake: &Intake, kept: &Kept) -> Result<Option<Levels>, String> {
    let request = &*intake.request;
    let (target, name) = (intake.roles.target, &request.target);
    let own = Levels { names: Vec::new(), kind: None, classes: Classes::Own };
    let is_text = kept.shape.columns[target].is_text;
    if !is_text && request.positive.is_none() {
        return Ok(Some(own));
    }
    let too_many = || {
        format!(
            "target '{name}' has more than two levels; a binomial target must have two: of more, \
             Python predicts all with family 'multinomial'"
        )
    };
    if !is_text {
        let (mut found, mut values): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        for part in 0..kept.parts() {
            kept.read(part, target, &mut values);
            for &y in &values {
                if !found.contains(&y) {
                    found.push(y);
                }
                if found.len() > 2 {
                    return Err(too_many());
                }
            }
        }
        found.sort_by(f64::total_cmp);
        let is_one = |y: &f64| match &request.positive {
            Some(Value::Truth(truth)) => *y == f64::from(u8::from(*truth)),
            Some(Value::Text(text)) => text.parse() == Ok(*y),
            Some(value) => value.number() == Some(*y),
            None => false,
        };
        let Some(&one) = found.iter().find(|y| is_one(y)) else {
            let levels: Vec<String> = found.iter().map(f64::to_string).collect();
            return Err(no_level(request, &levels));
        };
        let Some(&other) = found.iter().find(|y| **y != one) else { return Ok(None) };
        let kind = if one.fract() == 0.0 && other.fract() == 0.0 { "int" } else { "float" };
        return Ok(Some(Levels {
            names: vec![other.to_string(), one.to_string()],
            kind: Some(kind),
            classes: Classes::Is(one),
        }));
    }
    let levels: Vec<String> =
        kept.levels(target).map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    if levels.len() > 2 {
        return Err(too_many());
    }
    let mut sorted = levels.clone();
    sorted.sort();
    if let Some(positive) = &request.positive {
        let is_it = |level: &String| *positive == Value::Text(level.clone());
        match sorted.iter().position(is_it) {
            Some(at) => {
                let one = sorted.remove(at);
                sorted.push(one);
            }
            None => return Err(no_level(request, &sorted)),
        }
    }
    let [_, one] = &sorted[..] else { return Ok(None) };
    let class = |level: &String| f64::from(u8::from(level == one));
    let classes = Classes::Levels(levels.iter().map(class).collect());
    Ok(Some(Levels { names: sorted, kind: Some("str"), classes }))
}

fn no_level(request: &Request, levels: &[String]) -> String {
    let positive = request.positive.as_ref().map(Value::to_string).unwrap_or_default();
    format!(
        "positive is {positive}; target '{}' has the levels [{}]",
        request.target,
        levels.join(", ")
    )
}

/// A list of texts.
fn texts<'t>(items: impl IntoIterator<Item = &'t String>) -> Cell<'static> {
    Cell::List(items.into_iter().map(|text| Cell::Text(Cow::Owned(text.clone()))).collect())
}

fn text(text: &str) -> Cell<'static> {
    Cell::Text(Cow::Owned(text.to_string()))
}

fn optional(found: Option<&String>) -> Cell<'static> {
    found.map_or(Cell::Null, |found| text(found))
}

/// Coefficients that a prediction reads before those of the columns: 1 of what is added.
fn fixed(request: &Request) -> Vec<(Cow<'static, str>, f64)> {
    let exposure = request.exposure.as_ref().map(|name| format!("{name}.log"));
    request.offset.iter().cloned().chain(exposure).map(|name| (Cow::Owned(name), 1.0)).collect()
}

/// The terms that a prediction reads, with the shares of levels.
fn terms_json(request: &Request, rows: &Rows, start: &Start) -> Cell<'static> {
    let mut terms = rows.terms.clone();
    if let Some(exposure) = &request.exposure {
        terms.bases.push(json!({"column": exposure}));
    }
    let json = terms.of_model(&rows.columns, |at| start.means[at]);
    json.map_or(Cell::Null, |json| Cell::Text(Cow::Owned(json)))
}

fn aliased(members: &[String], columns: &[usize], known: &Precision) -> Cell<'static> {
    let both = columns.iter().zip(&known.aliased);
    texts(both.filter(|(_, aliased)| **aliased).map(|(&j, _)| &members[j]))
}

fn model_of(
    request: &Request,
    rows: &Rows,
    start: &Start,
    members: &[String],
    levels: &Levels,
    fit: &Fit,
    known: &Precision,
) -> Cell<'static> {
    let (intercept, coefficients) = in_units(&start.problem, fit);
    let mut entries = fixed(request);
    entries.extend(members.iter().cloned().map(Cow::Owned).zip(coefficients));
    let first = request.fields.intercept.then_some((INTERCEPT.to_string(), known.intercept));
    let errors = first.into_iter().chain(members.iter().cloned().zip(known.columns.clone()));
    let errors = errors.filter(|(_, error)| !error.is_nan());
    let note = note(start, fit, known, request.fields.ridge);
    Cell::List(vec![
        Cell::Text(Cow::Owned(request.family.text())),
        text(request.family.link.name()),
        text(&request.target),
        texts(&levels.names),
        Cell::Number(intercept),
        Cell::Map(entries),
        Cell::Map(errors.map(|(name, error)| (Cow::Owned(name), error)).collect()),
        Cell::Number(fit.model.deviance),
        Cell::Number(start.problem.null_deviance),
        Cell::Number(fit.explained),
        Cell::Number(known.dispersion),
        Cell::Whole(start.n_rows),
        Cell::Whole(rows.skipped() as i64),
        Cell::Whole(fit.steps as i64),
        text(fit.status.name()),
        aliased(members, &fit.columns, known),
        optional(note.as_ref()),
        terms_json(request, rows, start),
    ])
}

/// Wald's tests, by the normal distribution (Wald 1943).
fn summary(
    request: &Request,
    start: &Start,
    members: &[String],
    fit: &Fit,
    known: &Precision,
) -> Cell<'static> {
    let (intercept, coefficients) = in_units(&start.problem, fit);
    let first = (INTERCEPT.to_string(), intercept, known.intercept);
    let first = request.fields.intercept.then_some(first);
    let columns = members.iter().cloned().zip(coefficients).zip(&known.columns);
    let columns = columns.map(|((name, own), &error)| (name, own, error));
    let reach = normal::quantile(0.5 + 0.5 * request.level);
    let term = |(name, estimate, error): (String, f64, f64)| {
        let statistic = estimate / error;
        Cell::List(vec![
            Cell::Text(Cow::Owned(name)),
            Cell::Number(estimate),
            Cell::Number(error),
            Cell::Number(statistic),
            Cell::Number(2.0 * normal::tail(statistic.abs())),
            Cell::Number(estimate - error * reach),
            Cell::Number(estimate + error * reach),
        ])
    };
    Cell::List(first.into_iter().chain(columns).map(term).collect())
}

fn sequence(
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
    let used: std::collections::HashSet<&String> = groups.members.iter().collect();
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
        Cell::Number(step.map_or(0.0, |step| groups.costs[step.group])),
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
